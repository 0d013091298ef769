"""Which axes Transposes turn: alone, one behind the other, and on batches that are one axis for a while."""

from __future__ import annotations

from dataclasses import dataclass

from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.graph.ir import Op, Shape

MATRIX = 2


def permutation(transpose: Op, wiring: Wiring) -> tuple[int, ...]:
    """The axes of a Transpose, and of those before it that it takes over; none where they are not known."""
    found = own_permutation(transpose, wiring)
    before = wiring.producer(wiring.inputs(transpose)[0])
    if before is None or not is_op(before, "Transpose") or wiring.sole_consumer(before) is not transpose:
        return found
    inner = permutation(before, wiring)
    return tuple([inner[axis] for axis in found]) if len(inner) == len(found) else ()


def own_permutation(transpose: Op, wiring: Wiring) -> tuple[int, ...]:
    """The axes of a Transpose by itself."""
    axes = transpose.attributes.get("perm")
    source = wiring.operands(transpose)[0]
    if axes is None and source is not None and source.shape is not None:
        axes = tuple(reversed(range(len(source.shape))))
    return tuple([axis for axis in axes if isinstance(axis, int)]) if isinstance(axes, tuple) else ()


def swaps_last(axes: tuple[int, ...]) -> bool:
    """Whether the last two are swapped, and no others."""
    count = len(axes)
    return count > 1 and axes == (*range(count - MATRIX), count - 1, count - MATRIX)


def split_permutation(transpose: Op, split: Op, wiring: Wiring) -> tuple[int, ...]:
    """The axes of ``transpose`` where the Reshape ``split`` behind it, which takes axes apart, is done before it.

    None where it puts axes together.
    """
    whole, parts = (wiring.graph.values[op.results[0]].shape for op in (transpose, split))
    runs = runs_apart(whole, parts)
    if len(runs) != len(permutation(transpose, wiring)):
        return ()
    axes, first = permutation(transpose, wiring), dict[int, int]()
    for axis in sorted(range(len(axes)), key=lambda place: axes[place]):
        first[axis] = sum(runs[other] for other in first)
    return tuple([first[axis] + part for axis, count in enumerate(runs) for part in range(count)])


def runs_apart(whole: Shape | None, parts: Shape | None) -> tuple[int, ...]:
    """How many axes of ``parts`` each axis of ``whole`` is taken apart into; none where it is not so."""
    left, found = [*(parts or ())], list[int]()
    for size in whole or ():
        made, count = 1, 0
        while left and (made != size or not count):
            made, count = made * (left.pop(0) or 0), count + 1
        if made != size or not count:
            return ()
        found.append(count)
    return () if left else tuple(found)


@dataclass(frozen=True, slots=True)
class Turn:
    """What swaps the last two axes of batches that are one axis for a while."""

    flat: Op
    """The Reshape that makes one axis of them."""
    transpose: Op
    whole: bool
    """Whether the batches are again what they were; if not, a Reshape is left."""


def turned(back: Op, wiring: Wiring) -> Turn | None:
    """What stands before the Reshape ``back``, which takes batches apart again; None where it does no such thing.

    ONNX Runtime takes them apart before the Transpose: a batch of one that stands behind the others it takes to be of
    the axis after them, so that more are turned.
    """
    transpose = _before(back, "Transpose", wiring)
    flat = None if transpose is None else _before(transpose, "Reshape", wiring)
    if transpose is None or flat is None or not is_op(back, "Reshape"):
        return None
    source, values = wiring.operands(flat)[0], wiring.graph.values
    before, inner = (None if v is None else v.shape for v in (source, values[flat.results[0]]))
    after = values[back.results[0]].shape
    if before is None or inner is None or after is None or len(inner) != MATRIX + 1:
        return None
    keeps = before[-MATRIX:] == inner[-MATRIX:] == after[-MATRIX:][::-1]
    orders = own_permutation(transpose, wiring), split_permutation(transpose, back, wiring)
    turns = keeps and all(map(swaps_last, orders))
    return Turn(flat, transpose, before[:-MATRIX] == after[:-MATRIX]) if turns else None


def _before(op: Op, op_type: str, wiring: Wiring) -> Op | None:
    """What makes the first input of ``op`` for it alone, if it is of this type."""
    maker = wiring.producer(wiring.inputs(op)[0])
    return maker if maker is not None and is_op(maker, op_type) and wiring.sole_consumer(maker) is op else None
