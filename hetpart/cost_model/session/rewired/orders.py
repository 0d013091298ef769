"""Orders of axes, as the attribute ``perm`` of a Transpose writes them: of each axis behind it, the one before."""

from __future__ import annotations

from collections.abc import Iterable

from hetpart.graph.ir import Op, Shape

Order = tuple[int, ...]


def written_order(transpose: Op) -> Order:
    """As the op says it; none where it leaves it out."""
    axes = transpose.attributes.get("perm", ())
    return tuple([axis for axis in axes if isinstance(axis, int)]) if isinstance(axes, tuple) else ()


def inverse(order: Order) -> Order:
    """What undoes ``order``."""
    return tuple(sorted(range(len(order)), key=lambda axis: order[axis]))


def composed(first: Order, second: Order) -> Order:
    """``first`` and then ``second``."""
    return tuple([first[axis] for axis in second])


def reordered(shape: Shape | None, order: Order) -> Shape | None:
    """``shape`` behind a Transpose."""
    return None if shape is None else tuple([shape[axis] for axis in order])


def squeezed(order: Order, gone: Iterable[int]) -> Order:
    """``order`` without the axes ``gone``, which are counted before it."""
    left = [axis for axis in order if axis not in {*gone}]
    places = {axis: place for place, axis in enumerate(sorted(left))}
    return tuple([places[axis] for axis in left])


def unsqueezed(order: Order, added: Iterable[int]) -> Order:
    """``order`` with the axes ``added``, which stay where they are."""
    new = {*added}
    kept = [axis for axis in range(len(order) + len(new)) if axis not in new]
    moving = iter(order)
    return tuple([axis if axis in new else kept[next(moving)] for axis in range(len(order) + len(new))])
