"""Ops whose CPU kernels take longer, or shorter, where the axis they work along is not the last one.

Cycles are those of ``scalar``: between 2^16 and 2^19 elements of float32, which differ by up to a factor of two where
the rows of the latter lie in no near cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.formulas.table import Table, serial_cycles, spread_cycles

ByAxis = Mapping[str, tuple[float, float]]
"""Per element of the input: along the last axis, along another."""
EXTREMA: ByAxis = {"ArgMax": (4, 9), "ArgMin": (4, 9)}
SOFTMAXES: ByAxis = {"Hardmax": (4, 13), "LogSoftmax": (0, 12), "Softmax": (0, 12)}
"""Along another axis there is a transpose before and one behind, each on one thread."""
DOUBLE_EXPONENT = 20.5
"""Of float64, in addition, along any axis: 19 on the EPYC, 20 to 23 on a Xeon of 3.1 GHz in rows of 8 to 4,096."""
EXCHANGED = 34.0
"""The same, where the last axis is not the next one: ``Softmax<T>::Compute`` makes the two change places, which moves
element by element; where they are next to each other, it moves one axis, by blocks. 31 to 43 on an EPYC 9004 of 3.5
GHz."""
REDUCTIONS: ByAxis = {
    "ReduceL1": (3.8, 9), "ReduceL2": (3.7, 7.5), "ReduceLogSum": (4, 8), "ReduceLogSumExp": (33, 45),
    "ReduceProd": (5, 8), "ReduceSumSquare": (4, 7.5),
}  # fmt: skip
BY_ROWS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
"""They add vectors along the last axis to each other, or the elements of one."""
ROW_CYCLES = 6.3
"""Of each row that is added: 6.2 an element in rows of one, 3.2 of two, 1.9 of four."""
CUMULATED = (7.7, 1.2)
ONE_HOT = (8.0, 3.0)
"""Per element written."""
STRIDE_CYCLES = 5.0
"""Of each element that a Slice takes with a step along the last axis; along others it copies what lies together."""
_FLATTENING = 13
"""Before, the axes from the given one on were taken as one."""
_SLICE_AXES, _SLICE_STEPS = 3, 4


@dataclass(frozen=True, slots=True)
class Reduced:
    """Cycles per element that a reduction reads, where its dtype has no vector code."""

    whole: float
    """Of all axes, which one thread reduces."""
    last: float
    between: float
    first: float


_INTEGERS, _WORDS = Reduced(11.5, 10.0, 5.0, 9.5), Reduced(2.9, 2.3, 3.0, 10.0)
_LARGEST = {
    "float64": Reduced(0.7, 0.6, 2.0, 3.5), "int32": Reduced(0.5, 0.5, 0.8, 3.0), "int64": Reduced(2.0, 2.0, 2.5, 3.1),
    **dict.fromkeys(("int8", "uint8"), Reduced(0.2, 0.2, 1.9, 3.0)),
}  # fmt: skip
_SUMMED = {"float64": Reduced(0.8, 0.8, 2.5, 1.0), "int32": _WORDS, "int64": _INTEGERS}
BY_DTYPE: Mapping[str, Mapping[str, Reduced]] = {
    "ReduceMax": _LARGEST,
    "ReduceMean": {**_SUMMED, "int64": replace(_INTEGERS, last=2.3)},
    "ReduceMin": _LARGEST,
    "ReduceSum": _SUMMED,
}
"""Measured on an EPYC 9004 of 3.5 GHz, between 2^19 and 2^22 elements: those between axes differ by up to three times,
by how far apart lies what is added."""
NORMED, FAR_NORMED, PAGE_BYTES = 3.3, 23.0, 4096
"""Of each element of ``LpNormalization``, and in addition where they lie a page or more apart; of less, a part of that:
4.0, 11.8, 25 and 24 to 30 cycles for 256 bytes, 1, 4 and more KB on the EPYC."""


def reduces_nothing(o: Operands) -> bool:
    """Whether ``o`` is a reduction without axes that gives back what it is given."""
    axes = o.input(1)
    given = o.integers("axes") or (axes is not None and axes.numel > 0)
    return bool(o.integer("noop_with_empty_axes", 0)) and not given


def kept_behind(shape: tuple[int, ...], made: tuple[int, ...]) -> int | None:
    """Elements of the trailing axes that a reduction keeps; None where it takes the last one.

    Axes that were dropped cannot be told from shapes alone where sizes repeat; then the first fit counts.
    """
    if len(shape) == len(made):
        kept = [size == other for size, other in zip(shape, made, strict=True)]
    else:
        start = next((i for i, (size, other) in enumerate(zip(shape, made, strict=False)) if size != other), len(made))
        dropped = range(start, start + len(shape) - len(made))
        kept = [axis not in dropped for axis in range(len(shape))]
    if not shape or not kept[-1] or all(kept):
        return None
    last = max(axis for axis, stays in enumerate(kept) if not stays)
    return prod(shape[last + 1 :])


def is_strided(o: Operands) -> bool:
    """Whether ``o`` is a Slice that takes elements of the last axis one by one, with a step."""
    steps, rank = o.content(_SLICE_STEPS), len(o.shape(0))
    if o.op.op_type != "Slice" or steps is None or not rank:
        return False
    axes = o.content(_SLICE_AXES) or tuple(range(len(steps)))
    return any(step != 1 and axis in (-1, rank - 1) for axis, step in zip(axes, steps, strict=False))


def _along_last(o: Operands, default: int) -> bool:
    return o.integer("axis", default) in (-1, len(o.shape(0)) - 1)


def _is_summed_last(o: Operands) -> bool:
    axes = o.content(1) or o.integers("axes")
    if axes:
        return bool({-1, len(o.shape(0)) - 1} & set(axes))
    return kept_behind(o.shape(0), o.output_shape()) is None


def _by_axis(table: Table[float], rows: ByAxis, is_last: Callable[[Operands], bool]) -> None:
    for op_type, (last, other) in rows.items():
        table.add(
            lambda o, last=last, other=other: (
                0.0 if reduces_nothing(o) else o.numel(0) * (last if is_last(o) else other)
            ),
            (op_type,),
        )


_by_axis(spread_cycles, EXTREMA, lambda o: _along_last(o, 0))
_by_axis(spread_cycles, REDUCTIONS, _is_summed_last)


@serial_cycles(*SOFTMAXES)
def _softmax(o: Operands) -> float:
    last, other = SOFTMAXES[o.op.op_type]
    shape, given = o.shape(0), o.input(0)
    if given is not None and given.dtype == "float64" and o.op.op_type != "Hardmax":
        last, other = last + DOUBLE_EXPONENT, other + DOUBLE_EXPONENT
    if o.op.version < _FLATTENING or not shape or _along_last(o, -1):
        return last * o.numel(0)
    return o.numel(0) * (other if o.integer("axis", -1) % len(shape) == len(shape) - 2 else EXCHANGED)


@spread_cycles(*BY_ROWS)
def _rows(o: Operands) -> float:
    kept = None if _is_summed_last(o) else kept_behind(o.shape(0), o.output_shape())
    pace, made = _pace(o), o.output_numel()
    if reduces_nothing(o) or (kept is None and made == 1):
        return 0.0
    if kept is None:
        return pace.last * o.numel(0)
    return max(ROW_CYCLES / max(1, kept), pace.first if made == kept else pace.between) * o.numel(0)


@serial_cycles(*BY_ROWS)
def _whole(o: Operands) -> float:
    return _pace(o).whole * o.numel(0) if o.output_numel() == 1 and not reduces_nothing(o) else 0.0


def _pace(o: Operands) -> Reduced:
    first = o.input(0)
    return BY_DTYPE[o.op.op_type].get("" if first is None else first.dtype, Reduced(0.0, 0.0, 0.0, 0.0))


def far_apart(o: Operands, default: int) -> float:
    """The part of a page that lies between neighbours along the axis of ``o``; none where they lie together."""
    shape, first = o.shape(0), o.input(0)
    if _along_last(o, default) or not shape or first is None:
        return 0.0
    stride = prod(shape[o.integer("axis", default) % len(shape) + 1 :]) * element_bytes(first)
    return min(1.0, stride / PAGE_BYTES)


@serial_cycles("LpNormalization")
def _normed(o: Operands) -> float:
    return o.numel(0) * (NORMED + FAR_NORMED * far_apart(o, -1))


@serial_cycles("CumSum")
def _cumulated(o: Operands) -> float:
    """The last axis where it is not known: it takes longer."""
    axis = (o.content(1) or (-1,))[0]
    return o.numel(0) * CUMULATED[axis not in (-1, len(o.shape(0)) - 1)]


@serial_cycles("OneHot")
def _one_hot(o: Operands) -> float:
    return o.output_numel() * ONE_HOT[o.integer("axis", -1) not in (-1, len(o.output_shape()) - 1)]


@serial_cycles("Slice")
def _strided(o: Operands) -> float:
    return STRIDE_CYCLES * o.output_numel() if is_strided(o) else 0.0
