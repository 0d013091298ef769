"""How large the tensors in a sequence are, where what makes it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetpart.graph.ir import Graph, TripLimit, Value
from hetpart.graph.trips import UNKNOWN_TRIPS

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

Parts = tuple[int, ...]
"""Bytes of each tensor."""
MOST_PARTS = 10_000
"""Of a longer sequence only the sum is kept, as one part: a dimension may claim anything."""
_BEFORE_STATES = 2
"""Inputs of a Loop, and of its body, before its states; its body returns one before them."""


def states_of(node: onnx.NodeProto, body: onnx.GraphProto) -> dict[str, str]:
    """Names of a Loop's states in its body, with the names of what they are at first."""
    if node.op_type != "Loop":
        return {}
    return {
        state.name: name for state, name in zip(body.input[_BEFORE_STATES:], node.input[_BEFORE_STATES:], strict=False)
    }


@dataclass(frozen=True, slots=True)
class Maker:
    """A node that makes sequences, and what is known of what it reads."""

    node: onnx.NodeProto
    inputs: Sequence[Value | None]
    contents: Mapping[str, NDArray[Any]]
    bodies: Sequence[Graph]
    trip_limit: TripLimit | None

    def input(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def parts(self, position: int) -> Parts | None:
        value = self.input(position)
        return None if value is None else value.parts

    def number(self, name: str, default: int) -> int:
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def content(self, position: int) -> NDArray[Any] | None:
        name = self.node.input[position] if position < len(self.node.input) else ""
        return self.contents.get(name)


def made_parts(maker: Maker) -> tuple[Parts | None, ...]:
    """The parts of every output of a node; ``None`` for what is no sequence, or nothing tells."""
    rule = RULES.get(maker.node.op_type) if maker.node.domain in ("", "ai.onnx") else None
    found = rule(maker) if rule else ()
    return tuple((sum(parts),) if parts is not None and len(parts) > MOST_PARTS else parts for parts in found)


def _empty(_: Maker) -> list[Parts | None]:
    return [()]


def _constructed(maker: Maker) -> list[Parts | None]:
    return [tuple(value.nbytes for value in maker.inputs if value is not None)]


def _inserted(maker: Maker) -> list[Parts | None]:
    before, added = maker.parts(0), maker.input(1)
    return [None if before is None or added is None else (*before, added.nbytes)]


def _erased(maker: Maker) -> list[Parts | None]:
    """Without one: that which is named, else the smallest."""
    before, named = maker.parts(0), maker.content(1)
    if not before:
        return [before]
    last = len(before) - 1
    at = last if len(maker.node.input) < 2 else before.index(min(before)) if named is None else int(named) % len(before)
    return [(*before[:at], *before[at + 1 :])]


def _split(maker: Maker) -> list[Parts | None]:
    """The whole along the axis: in the sizes given, or one by one."""
    whole = maker.input(0)
    if whole is None or not whole.shape:
        return [None]
    length = whole.shape[maker.number("axis", 0)]
    sizes = maker.content(1)
    if length is None or not length or length > MOST_PARTS or (sizes is None and len(maker.node.input) > 1):
        return [(whole.nbytes,)]
    if sizes is None:
        taken = [1] * length
    elif sizes.ndim:
        taken = [int(size) for size in sizes]
    else:
        step = max(1, int(sizes))
        taken = [min(step, length - start) for start in range(0, length, step)]
    return [tuple(whole.nbytes * size // length for size in taken)]


def _same(maker: Maker) -> list[Parts | None]:
    return [maker.parts(0)]


def _mapped(maker: Maker) -> list[Parts | None]:
    """As many as there were, each as the body makes it."""
    before = maker.parts(0)
    outputs = [body.values[value].nbytes for body in maker.bodies for value in body.outputs]
    return [None if before is None else (nbytes,) * len(before) for nbytes in outputs]


def _dearer(maker: Maker) -> list[Parts | None]:
    """Those of the branch that makes more."""
    branches = [[body.values[value].parts for value in body.outputs] for body in maker.bodies]
    return [max((p for p in parts if p is not None), key=sum, default=None) for parts in zip(*branches, strict=False)]


def _grown(maker: Maker) -> list[Parts | None]:
    """What a state had, and what every turn adds to it."""
    trips = UNKNOWN_TRIPS if maker.trip_limit is None else maker.trip_limit.count
    found: list[Parts | None] = []
    for body in maker.bodies:
        states = (body.values[value].parts for value in body.outputs[1:])
        for position, after in enumerate(states, _BEFORE_STATES):
            before = maker.parts(position)
            if before is None or after is None:
                found.append(None)
            else:
                found.append((*before, *after[len(before) :] * min(trips, MOST_PARTS)))
    return found


RULES: Mapping[str, Callable[[Maker], list[Parts | None]]] = {
    "Identity": _same,
    "If": _dearer,
    "Loop": _grown,
    "SequenceConstruct": _constructed,
    "SequenceEmpty": _empty,
    "SequenceErase": _erased,
    "SequenceInsert": _inserted,
    "SequenceMap": _mapped,
    "SplitToSequence": _split,
}
"""What makes sequences, by op type."""
