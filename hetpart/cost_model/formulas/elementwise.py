"""Element by element: flops are a number per element written."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops, moves_nothing, no_arithmetic, per_output_element

# Transcendental functions count the operations of their usual polynomial or rational approximation.
PER_ELEMENT: dict[str, float] = {
    "Abs": 1, "Add": 1, "And": 1, "BitShift": 1, "BitwiseAnd": 1, "BitwiseNot": 1, "BitwiseOr": 1, "BitwiseXor": 1,
    "Ceil": 1, "Clip": 2, "Div": 1, "Equal": 1, "Floor": 1, "Greater": 1, "GreaterOrEqual": 1, "IsInf": 1, "IsNaN": 1,
    "LeakyRelu": 2, "Less": 1, "LessOrEqual": 1, "Mod": 2, "Mul": 1, "Neg": 1, "Not": 1, "Or": 1, "PRelu": 2,
    "Reciprocal": 1, "Relu": 1, "Round": 1, "Shrink": 2, "Sign": 1, "Sqrt": 1, "Sub": 1, "ThresholdedRelu": 1,
    "Where": 1, "Xor": 1, "HardSigmoid": 4, "HardSwish": 5, "Softsign": 3,
    "Acos": 10, "Acosh": 10, "Asin": 10, "Asinh": 10, "Atan": 10, "Atanh": 10, "Cos": 8, "Cosh": 8, "Sin": 8,
    "Sinh": 8, "Tan": 10, "Tanh": 6, "Celu": 6, "Elu": 6, "Erf": 8, "Exp": 4, "Gelu": 12, "Log": 4, "Mish": 12,
    "Pow": 8, "Selu": 6, "Sigmoid": 4, "Softplus": 8, "Swish": 5,
    "Dropout": 1,
}  # fmt: skip

CONTRIB_PER_ELEMENT: dict[str, float] = {
    "BiasAdd": 2, "BiasDropout": 2, "BiasGelu": 13, "BiasSplitGelu": 14, "BitmaskDropout": 1, "FastGelu": 10,
    "Gelu": 12, "Inverse": 8, "IsAllFinite": 1, "QuickGelu": 6,
}  # fmt: skip

CONVERSIONS = ("BitCast", "Cast", "CastLike")

per_output_element(PER_ELEMENT)
per_output_element(CONTRIB_PER_ELEMENT, CONTRIB)
no_arithmetic(CONVERSIONS)


@flops("Max", "Mean", "Min", "Sum")
def _over_inputs(o: Operands) -> float:
    return float(o.elements_out * max(1, len(o.inputs) - 1))


@flops("SwiGLU")
def _swiglu(o: Operands) -> float:
    return 6.0 * o.elements_out


moves_nothing(("Identity",))
