"""Ops whose CPU kernels compute one element after another, by calls of the C library or in plain loops.

Cycles are nanoseconds measured on a 2.5 GHz Xeon with AVX-512, 2^19 elements of float32, ONNX Runtime 1.31, times 2.5;
an op belongs to ``SPREAD`` where a second thread made it faster. What is missing takes about as long as its bytes move.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from hetpart.cost_model.formulas.gathering import index_tuples
from hetpart.cost_model.formulas.matmul import inner_dimension
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, Table, flops, serial_cycles, spread_cycles

SERIAL: Mapping[str, float] = {
    "Acosh": 45, "Asin": 5, "Asinh": 39, "Atan": 7, "Atanh": 37, "Cos": 8, "Cosh": 36, "Mod": 21,
    "NonZero": 47, "RandomNormalLike": 40, "RandomUniformLike": 13, "Sin": 8, "Sinh": 39, "Softplus": 50,
    "Unique": 300,
}  # fmt: skip
SPREAD: Mapping[str, float] = {
    "Celu": 10.5, "Elu": 9, "LRN": 89, "Log": 8, "Mish": 54, "PRelu": 16.6, "Selu": 9,
    "Tan": 48,
}  # fmt: skip
"""Both per element of the largest input. Of ``LRN`` nearly all is its power, whatever its size; of ``PRelu`` signs that
the processor does not foresee. Both on an EPYC 9004, taken to run at 3.5 GHz."""
POWER, PRODUCT_CYCLES = 23.0, 1.2
"""Of an element; the second where it is squared or cubed, on the EPYC."""
POWER_FLOPS = 8.0
"""Of an element, as of other functions that are approximated."""
SMALL_POWERS = ((2.0,), (3.0,))
"""Of a lone exponent: ``pow_internal`` of ONNX Runtime's ``element_wise_ops.cc`` multiplies instead."""
RUN_CYCLES = 13.0
"""Of each row of a block that ``DepthToSpace`` writes, whose elements it finds in as many channels: 13.0, 14.8, 11.3
and 14.3 for blocks of 2, 3, 4 and 8 elements on an EPYC 9004 of 3.5 GHz."""
UNPACKED_WEIGHT, UNPACKED_BLOCK = 3.0, 350.0
"""Of each weight, and of each block with a scale of its own, that ``MatMulNBits`` turns into floats in every run: of
2 and 8 bits, of which no kernel multiplies floats with the weights as they are."""
INTEGER_CYCLES: Mapping[str, float] = {"int32": 1.0, "int64": 1.9, "uint32": 1.0, "uint64": 1.9}
"""Of each multiply-add of a product of integers."""
VECTOR_CYCLES = 8.0
"""Of each multiply-add of floats with a right side of one axis, on the EPYC: ``MatMulComputeHelper`` of ONNX Runtime
makes it a product for every row, of one column."""
RESIZED: Mapping[str, float] = {"cubic": 720, "linear": 7.8, "nearest": 3.5}
"""Per element written; of ``cubic``, whose weights are looked up for each of 16 neighbours, by halves 1190; of
``linear`` between 12.8 on the Xeon and 4.7 on an EPYC 9004 of 3.5 GHz."""
NEAREST_TWICE = ((1.0, 1.0, 2.0, 2.0), "asymmetric", "floor")
"""Scales, coordinates and rounding of what ``UpsampleNearest2x`` of ONNX Runtime's ``upsample.cc`` writes in pairs."""
RESIZED_BY_COORDINATES = 11
"""Opset from which Resize says how it finds coordinates."""
VOLUME_NEAREST = 52.0
"""The same of ``nearest`` on more than images."""
ANTIALIASED = 14.0
"""Per element of what is larger, read or written, in all modes: one axis after the other."""
ON_A_GRID: Mapping[str, float] = {"bicubic": 300, "bilinear": 20, "cubic": 300, "linear": 20, "nearest": 55}
"""Per element written; of ``nearest``, 39 to 76."""
IN_A_VOLUME: Mapping[str, float] = {"bilinear": 350, "linear": 350, "nearest": 105}
"""The same on three axes, where each of the elements around a place is looked up by itself."""
TUPLE_CYCLES = 145.0
"""Of each index tuple of ``GatherND``, from 108 to 195, whatever it takes."""
BOX_CYCLES, PAIR_CYCLES, USUAL_KEPT = 55.0, 33.0, 100
"""Of each box of ``NonMaxSuppression``, of the square of how many are kept, and what that is where it is not known."""
ELEMENT_CYCLES = 3.5
"""Of each element that ``GatherElements`` looks up: 2.4 to 4.8 in a near cache."""
DROPPED_CYCLES = 15.0
"""Of each element that ``Dropout`` draws for, where it trains, on an EPYC 9004 of 3.5 GHz."""
WRITTEN_CYCLES: Mapping[str, float] = {"bool": 73, "float32": 650, "float64": 700}
READ_CYCLES: Mapping[str, float] = {"float32": 310, "float64": 310}
TEXT_CYCLES = 235.0
"""Of each number that becomes a string or is made of one, the last of integers: 570 to 810, 240 to 410, and 225 to 240
on the same, for 1000 and for 100,000 of them."""
_IMAGE_RANK, _MOST_KEPT, _TRAINS = 4, 2, 2
_KEPT_PACKED, _INTEGERS = 4, 4


def _per_element(table: Table[float], rows: Mapping[str, float]) -> None:
    for op_type, cycles in rows.items():
        table.add(lambda o, cycles=cycles: cycles * _elements(o), (op_type,))


def _elements(o: Operands) -> int:
    return max((value.numel for value in o.inputs if value is not None), default=0)


@spread_cycles("MatMulNBits", domain=CONTRIB)
def _unpacked(o: Operands) -> float:
    if o.integer("bits", _KEPT_PACKED) == _KEPT_PACKED or o.integer("accuracy_level", 0) >= _INTEGERS:
        return 0.0
    weights = o.integer("K", 1) * o.integer("N", 1)
    return weights * (UNPACKED_WEIGHT + UNPACKED_BLOCK / max(1, o.integer("block_size", 32)))


@serial_cycles("MatMul")
def _integers(o: Operands) -> float:
    first = o.input(0)
    return INTEGER_CYCLES.get("" if first is None else first.dtype, 0.0) * o.output_numel() * inner_dimension(o)


@spread_cycles("MatMul")
def _by_vector(o: Operands) -> float:
    right = o.input(1)
    if right is None or right.dtype != "float32" or right.shape is None or len(right.shape) != 1:
        return 0.0
    return VECTOR_CYCLES * o.output_numel() * inner_dimension(o)


def _mode(o: Operands) -> str:
    return str(o.attribute("mode", "nearest"))


def _is_spread(o: Operands) -> bool:
    return _mode(o) == "linear" or bool(o.integer("antialias", 0))


def _is_copied(o: Operands) -> bool:
    """Whether whole elements are copied, by vectors: all of what keeps its size, or each to the four it becomes."""
    shape, made = o.shape(0), o.output_shape()
    if shape == made or len(shape) != len(made):
        return shape == made
    scales, *way = NEAREST_TWICE
    by = str(o.attribute("coordinate_transformation_mode", "half_pixel")), str(o.attribute("nearest_mode", ""))
    enlarged = tuple(large / small for small, large in zip(shape, made, strict=True) if small)
    return enlarged == scales and _mode(o) == "nearest" and (o.op.version < RESIZED_BY_COORDINATES or [*by] == way)


def _resized(o: Operands) -> float:
    if _is_copied(o):
        return 0.0
    if o.integer("antialias", 0):
        return ANTIALIASED * max(o.numel(0), o.output_numel())
    volume = _mode(o) == "nearest" and len(o.shape(0)) > _IMAGE_RANK
    return o.output_numel() * (VOLUME_NEAREST if volume else RESIZED.get(_mode(o), 0.0))


@serial_cycles("Resize", "Upsample")
def _resized_alone(o: Operands) -> float:
    return 0.0 if _is_spread(o) else _resized(o)


@spread_cycles("Resize", "Upsample")
def _resized_together(o: Operands) -> float:
    return _resized(o) if _is_spread(o) else 0.0


def multiplies(o: Operands) -> bool:
    """Whether ``o``, a ``Pow``, squares or cubes all elements."""
    return o.content(1) in SMALL_POWERS


@flops("Pow")
def _raised(o: Operands) -> float:
    """A square is one product an element, a cube two; any other power is a polynomial."""
    exponent = o.content(1)
    return o.output_numel() * (exponent[0] - 1 if exponent is not None and multiplies(o) else POWER_FLOPS)


@spread_cycles("Pow")
def _power(o: Operands) -> float:
    return (PRODUCT_CYCLES if multiplies(o) else POWER) * _elements(o)


@serial_cycles("DepthToSpace")
def _unfolded(o: Operands) -> float:
    return RUN_CYCLES * o.output_numel() / max(1, o.integer("blocksize", 1))


@serial_cycles("Dropout")
def _dropped(o: Operands) -> float:
    """It trains where an input says so, or what says it is no constant."""
    trains = o.input(_TRAINS) is not None and any(o.content(_TRAINS) or (True,))
    return DROPPED_CYCLES * o.numel(0) if trains else 0.0


def spelled_cycles(o: Operands) -> float:
    """Of a ``Cast`` between numbers and their texts."""
    source, made = o.input(0), o.output()
    if source is None or made is None or "string" not in (source.dtype, made.dtype) or source.dtype == made.dtype:
        return 0.0
    written = made.dtype == "string"
    cycles = WRITTEN_CYCLES.get(source.dtype, TEXT_CYCLES) if written else READ_CYCLES.get(made.dtype, TEXT_CYCLES)
    return cycles * o.output_numel()


@spread_cycles("GridSample")
def _on_a_grid(o: Operands) -> float:
    cycles = IN_A_VOLUME if len(o.shape(0)) > _IMAGE_RANK else ON_A_GRID
    return cycles.get(str(o.attribute("mode", "linear")), 0.0) * o.output_numel()


@spread_cycles("GatherElements")
def _looked_up(o: Operands) -> float:
    return ELEMENT_CYCLES * o.output_numel()


@spread_cycles("GatherND")
def _found(o: Operands) -> float:
    return TUPLE_CYCLES * index_tuples(o)


@serial_cycles("NonMaxSuppression")
def _suppressed(o: Operands) -> float:
    """Boxes are sorted, and compared with those kept before, for each class."""
    boxes, classes = (o.shape(1) or (1,))[-1], prod(o.shape(1)[:-1])
    most = o.content(_MOST_KEPT)
    kept = min(boxes, most[0] if most else USUAL_KEPT)
    return classes * (BOX_CYCLES * boxes + PAIR_CYCLES * kept * kept)


_per_element(serial_cycles, SERIAL)
_per_element(spread_cycles, SPREAD)
