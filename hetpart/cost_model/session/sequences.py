"""Sequences hold tensors: which of them hold those of another, and what an op puts into one."""

from __future__ import annotations

from collections.abc import Iterable

from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Graph, Op

SHARING = frozenset({"Identity", "SequenceErase", "SequenceInsert"})
"""A sequence that they make holds the tensors of the one they are given."""


def shares(op: Op) -> bool:
    """Whether what ``op`` makes of a sequence holds its tensors."""
    return op.op_type in SHARING and not op.domain


def added(op: Op, graph: Graph) -> tuple[int, ...]:
    """Bytes of what ``op`` puts into a sequence."""
    value = op.inputs[1] if op.op_type == "SequenceInsert" and len(op.inputs) > 1 else None
    return () if value is None else (graph.values[value].nbytes,)


def sequences_held(reads: Iterable[int], graph: Graph, simple: Simplified) -> tuple[int, ...]:
    """Sequences that hold tensors of those that are read: one with more, or less, in it copies none."""
    found: list[int] = []
    waiting = [value for value in reads if graph.values[value].parts is not None]
    while waiting:
        maker = graph.values[waiting.pop()].producer
        source = graph.ops[maker].inputs[0] if maker is not None and shares(graph.ops[maker]) else None
        if source is not None:
            waiting.append(source)
            found.append(simple.value(source))
    return tuple(found)
