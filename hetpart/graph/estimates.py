"""How large a value may be whose dimensions only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hetpart.graph.ir import DTYPE_BITS, Shape, Value

REDUCTIONS = frozenset({
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
})  # fmt: skip
UNKNOWN_BYTES = 64
"""Assumed of a value about which nothing is known, not even from its op's inputs."""


AXES, SLICED_AXES = 1, 3
"""Input of a reduction, and of a Slice."""
SCORES, MOST_KEPT, COORDINATES = 1, 2, 3
"""Inputs of NonMaxSuppression, and what it says of each box that it keeps: image, class and box."""


def bounding(
    op_type: str, inputs: Sequence[Value | None], axes: Sequence[int] | None = None, longest: int | None = None
) -> list[Value]:
    """Values that no output of an op is larger than: its inputs, or less of them where their shapes tell.

    A reduction along axes that only a run can tell takes one away at least, which may be the smallest: numbers may
    repeat. Of a sequence one part is taken. Of the boxes of a class no more are kept than a constant says. Of what is
    sliced there is the whole, whatever its bounds are.

    Args:
        op_type: Of the op.
        inputs: That it reads, ``None`` for those left out.
        axes: Along which it slices or reduces, where they are known.
        longest: What it slices has no more elements along the first of these axes.
    """
    given = [value for value in inputs if value is not None]
    if op_type == "SequenceAt":
        return [_largest(value) for value in given]
    if op_type == "NonMaxSuppression" and len(given) > SCORES and given[SCORES].is_static:
        return [_kept(inputs)]
    if op_type == "Slice" and given:
        return [_part(given[0], (axes or (0,))[0], longest)]
    return [_reduced(given, axes), *given[AXES:]] if op_type in REDUCTIONS and len(given) > AXES else given


def _largest(value: Value) -> Value:
    """A sequence as what it holds at most in one part."""
    return value if not value.parts else replace(value, nbytes=max(value.parts))


def _kept(inputs: Sequence[Value | None]) -> Value:
    """As many numbers as tell all the boxes that are kept; without a limit it keeps none."""
    scores, limit = inputs[SCORES], inputs[MOST_KEPT] if len(inputs) > MOST_KEPT else None
    assert scores is not None
    *classes, boxes = (size or 0 for size in scores.shape or (1,))
    if limit is None:
        boxes = 0
    elif limit.content is not None:
        boxes = min(boxes, max(0, int(limit.content[0])))
    shape = (prod(classes) * boxes, COORDINATES)
    return replace(scores, shape=shape, nbytes=prod(shape) * DTYPE_BITS["int64"] // 8)


def _part(whole: Value, axis: int, longest: int | None) -> Value:
    """No more elements of it along an axis."""
    if longest is None or not whole.shape or not whole.is_static:
        return whole
    shape = [size or 0 for size in whole.shape]
    shape[axis] = min(shape[axis], longest)
    return replace(whole, shape=tuple(shape), nbytes=prod(shape) * DTYPE_BITS[whole.dtype] // 8)


def sliced_shape(inputs: Sequence[Value | None], axes: Sequence[int] | None) -> Shape | None:
    """Of a slice whose bounds only a run can tell, the sizes along axes that it leaves whole.

    Without ``axes`` it slices as many of the first as it has bounds.
    """
    whole, starts = (*inputs, None, None)[:2]
    if whole is None or whole.shape is None or starts is None or (axes is None and len(inputs) > SLICED_AXES):
        return None
    if axes is None:
        axes = range(min(starts.numel, len(whole.shape)))
    taken = {axis % len(whole.shape) for axis in axes}
    return tuple(None if axis in taken else size for axis, size in enumerate(whole.shape))


def _reduced(inputs: Sequence[Value], along: Sequence[int] | None) -> Value:
    """What is left of the first input at most."""
    whole, axes = inputs[0], inputs[AXES]
    if along and whole.shape is not None and whole.dtype in DTYPE_BITS:
        taken = {axis % len(whole.shape) for axis in along}
        others = [size for axis, size in enumerate(whole.shape) if axis not in taken]
        kept = tuple(size for size in others if size is not None)
        if len(kept) == len(others):
            return replace(whole, shape=kept, nbytes=prod(kept) * DTYPE_BITS[whole.dtype] // 8)
    count = (axes.shape[0] or 0) if axes.shape is not None and len(axes.shape) == 1 else 0
    sizes = sorted(size for size in whole.shape or () if size is not None)
    if not whole.is_static or axes.content is not None or not count:
        return whole
    left = tuple(sizes[1:])
    return replace(whole, shape=left, nbytes=prod(left) * DTYPE_BITS[whole.dtype] // 8)


def estimated_nbytes(dtype: str, shape: Shape | None, inputs: Sequence[Value]) -> int:
    """Bytes of an op's output, of which ``shape`` leaves dimensions open.

    They are taken to be as large as the open dimensions of its inputs; where its inputs have none, there are at most as
    many elements as in the largest of them. Weights count where nothing else is read.
    """
    flowing = [value for value in inputs if not value.is_constant] or list(inputs)
    if shape is None or dtype not in DTYPE_BITS:
        return max((value.nbytes for value in flowing), default=UNKNOWN_BYTES)
    known = prod(size for size in shape if size is not None)
    open_sizes = [_open_size(value) for value in flowing if value.shape is not None and None in value.shape]
    elements = known * max(open_sizes) if open_sizes else max((value.numel for value in flowing), default=0)
    return elements * DTYPE_BITS[dtype] // 8 or UNKNOWN_BYTES


def _open_size(value: Value) -> int:
    """Product of the open dimensions, as its estimate has them."""
    return max(1, value.numel // max(1, prod(size for size in value.shape or () if size is not None)))
