"""Which ops the CPU provider computes on integers, for the quantization that stands around them.

ONNX Runtime gives every reader a DequantizeLinear of its own, makes signed bytes unsigned ones where one op alone
quantizes and one dequantizes them, and multiplies signed bytes on the left on floats: so it is on processors of x86.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.graph.ir import Op, Value

QUANTIZED_ON_CPU: Mapping[str, str] = {
    **{kind: f"QLinear{kind}" for kind in (
        "Add", "AveragePool", "Concat", "Conv", "GlobalAveragePool", "LeakyRelu", "MatMul", "Mul", "Sigmoid", "Softmax",
        "Where",
    )},
    **{kind: kind for kind in (
        "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "MaxPool", "ReduceMax", "ReduceMin", "Reshape",
        "Resize", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )},
    "Gemm": "QGemm",
}  # fmt: skip
"""Ops the CPU provider computes on integers when dequantized inputs and a quantized output stand around them."""
MOVERS = frozenset(kind for kind, kernel in QUANTIZED_ON_CPU.items() if kind == kernel)
"""Of these, those that the same numbers go in and out of: they are quantized as before."""
OF_ANY_WIDTH = frozenset(
    {
        "Expand", "Flatten", "Gather", "GatherElements", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose",
        "Unsqueeze",
    }
)  # fmt: skip
"""Those that are left on integers of 16 bits, too."""
PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
QUANTIZED_FOR = frozenset({"Conv", "Gemm"})
"""Products whose weights and biases are quantized where the model has them as floats."""
WHOLLY = PRODUCTS | {"Add", "Concat", "Mul"}
"""All that they read is dequantized; of the others, the first alone, but for the branches of a Where."""
BRANCHES = slice(1, 3)
NEAREST = "nearest"
"""The mode of a Resize that moves numbers, and the default."""
SIGNED, UNSIGNED = "int8", "uint8"
BYTES = frozenset({SIGNED, UNSIGNED})
LEAST: Mapping[str, int] = {"uint8": 0, "int8": -128, "uint16": 0, "int16": -32768, "": 0}
"""The least number of the integers that quantization makes."""


def is_quantized(op: Op, wiring: Wiring) -> bool:
    """Whether ``op`` stands between dequantized inputs and a quantized output, so that it is computed on integers."""
    if op.op_type not in QUANTIZED_ON_CPU or op.domain:
        return False
    quantize = quantizer_behind(op, wiring)
    makers = [wiring.producer(value) for value in _dequantized(op, wiring) if value is not None]
    if quantize is None or not makers or (op.op_type == "Resize" and op.attributes.get("mode", NEAREST) != NEAREST):
        return False
    dequantizers = [maker for maker in makers if maker is not None and is_op(maker, "DequantizeLinear")]
    return len(dequantizers) == len(makers) and _fits(op, dequantizers, quantize, wiring)


def quantizer_behind(op: Op, wiring: Wiring) -> Op | None:
    """The QuantizeLinear that alone reads what ``op`` makes, or what a Relu makes of it that changes nothing there."""
    consumer = wiring.sole_consumer(op)
    if consumer is None or not is_op(consumer, "Relu"):
        return consumer if is_op(consumer, "QuantizeLinear") else None
    behind = wiring.sole_consumer(consumer)
    from_zero = behind is not None and is_op(behind, "QuantizeLinear") and quantizes_from_zero(behind, wiring)
    return behind if from_zero else None


def quantizes_from_zero(quantize: Op, wiring: Wiring) -> bool:
    """Whether a QuantizeLinear makes the least number of zero: a Relu before it changes nothing."""
    zero = next(iter(wiring.operands(quantize)[2:]), None)
    if zero is None:
        return len(quantize.inputs) < 3
    return zero.content is not None and zero.content[0] == LEAST.get(zero.dtype)


def _dequantized(op: Op, wiring: Wiring) -> tuple[int | None, ...]:
    """What is to be dequantized of what ``op`` reads.

    A number that is a branch of a Where is quantized for it, and so are weights and biases that are floats, but for
    weights beside a bias that is dequantized.
    """
    if op.op_type == "Where":
        values = wiring.graph.values
        return tuple([v for v in op.inputs[BRANCHES] if v is None or not _is_number(values[v])])
    if op.op_type in QUANTIZED_FOR:
        first, *constants = op.inputs
        left = [v for v in constants if v is None or not _is_of_floats(wiring.graph.values[v])]
        return op.inputs if left and constants[0] not in left else (first, *left)
    return op.inputs if op.op_type in WHOLLY else op.inputs[:1]


def _is_number(value: Value) -> bool:
    return _is_of_floats(value) and value.shape == ()


def _is_of_floats(value: Value) -> bool:
    return value.is_constant and value.dtype == "float32"


def _fits(op: Op, dequantizers: list[Op], quantize: Op, wiring: Wiring) -> bool:
    """Whether the dtypes, and for what only moves numbers the scales, are those that its kernel takes."""
    behind = wiring.sole_consumer(quantize)
    written = wiring.graph.values[quantize.results[0]].dtype
    made = _held(behind, wiring) if behind is not None and is_op(behind, "DequantizeLinear") else written
    read = [_held(dequantize, wiring) for dequantize in dequantizers]
    computed = read[:1] if op.op_type in PRODUCTS else read  # a bias is of four bytes
    if op.op_type not in OF_ANY_WIDTH and not BYTES.issuperset({*computed, made}):
        return False
    if op.op_type in PRODUCTS:
        return read[0] == made != SIGNED
    if op.op_type in MOVERS and not _is_scaled_alike(dequantizers[0], quantize, wiring):
        return False
    return {*read} == {made}


def _held(dequantize: Op, wiring: Wiring) -> str:
    """The dtype of what ``dequantize`` reads, as the session holds it."""
    value = wiring.operands(dequantize)[0]
    dtype = "" if value is None else value.dtype
    if value is None or dtype != SIGNED:
        return dtype
    quantize = wiring.producer(value.id)
    paired = quantize is not None and is_op(quantize, "QuantizeLinear") and wiring.sole_consumer(quantize) is dequantize
    result = dequantize.results[0]
    return UNSIGNED if paired and len(wiring.consumers.get(result, ())) + (result in wiring.returned) == 1 else dtype


def _is_scaled_alike(dequantize: Op, quantize: Op, wiring: Wiring) -> bool:
    sides = [(*wiring.operands(op), None, None)[1:3] for op in (dequantize, quantize)]
    return all(
        one is other or (one is not None and other is not None and _is_same(one, other))
        for one, other in zip(*sides, strict=True)
    )


def _is_same(one: Value, other: Value) -> bool:
    if one.content is None or other.content is None:
        return one.same_as is not None and one.same_as == other.same_as
    return one.content == other.content
