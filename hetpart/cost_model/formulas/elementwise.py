"""Element by element: flops are a number per element written."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    TRAINING,
    flops,
    moves_nothing,
    no_arithmetic,
    per_input_element,
    per_output_element,
)

# Transcendental functions count the operations of their usual polynomial or rational approximation.
PER_ELEMENT: dict[str, float] = {
    "Abs": 1, "Acos": 10, "Acosh": 10, "Affine": 2, "And": 1, "Add": 1, "Asin": 10, "Asinh": 10, "Atan": 10,
    "Atanh": 10, "BitShift": 1, "BitwiseAnd": 1, "BitwiseNot": 1, "BitwiseOr": 1, "BitwiseXor": 1, "Ceil": 1,
    "Celu": 6, "Clip": 2, "Cos": 8, "Cosh": 8, "Div": 1, "Dropout": 1, "Elu": 6, "Equal": 1, "Erf": 8, "Exp": 4,
    "Floor": 1, "Gelu": 12, "Greater": 1, "GreaterOrEqual": 1, "HardSigmoid": 4, "HardSwish": 5, "ImageScaler": 2,
    "IsInf": 1, "IsNaN": 1, "LeakyRelu": 2, "Less": 1, "LessOrEqual": 1, "Log": 4, "Mish": 12, "Mod": 2, "Mul": 1,
    "Neg": 1, "Not": 1, "Or": 1, "PRelu": 2, "ParametricSoftplus": 8, "Reciprocal": 1, "Relu": 1, "Round": 1,
    "Scale": 1, "ScaledTanh": 7, "Selu": 6, "Shrink": 2, "Sigmoid": 4, "Sign": 1, "Sin": 8, "Sinh": 8, "Softplus": 8,
    "Softsign": 3, "Sqrt": 1, "Sub": 1, "SwiGLU": 6, "Swish": 5, "Tan": 10, "Tanh": 6, "ThresholdedRelu": 1,
    "Where": 1, "Xor": 1,
}  # fmt: skip

CONTRIB_PER_ELEMENT: dict[str, float] = {
    "BiasAdd": 2, "BiasDropout": 2, "BiasGelu": 13, "BiasSplitGelu": 14, "BitmaskBiasDropout": 2, "BitmaskDropout": 1,
    "ComplexMul": 3, "ComplexMulConj": 3, "FastGelu": 10, "GatedAdd": 2, "Gelu": 12, "MulInteger": 1, "QuickGelu": 6,
    "ScaledSiLU": 6,
}  # fmt: skip

CONVERSIONS = ("BitCast", "Cast", "CastLike")

OPTIMIZER_STEPS: dict[str, float] = {"Adagrad": 7, "Adam": 14, "Momentum": 5}
"""Flops per element of all that is updated together: parameters, gradients and moments are inputs alike."""

per_output_element(PER_ELEMENT)
per_output_element(CONTRIB_PER_ELEMENT, CONTRIB)
per_input_element({"IsAllFinite": 1}, CONTRIB)
no_arithmetic(CONVERSIONS)
moves_nothing(("Identity",))


@flops("Max", "Mean", "Min", "Sum")
def _over_inputs(o: Operands) -> float:
    return float(o.output_numel() * max(1, len(o.inputs) - 1))


@flops(*OPTIMIZER_STEPS, domain=TRAINING)
def _optimizer_step(o: Operands) -> float:
    return OPTIMIZER_STEPS[o.op.op_type] * o.elements_out / 2
