"""Which ops of a graph must cost the same: deep models repeat their layers, and pricing one of each is enough."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hetpart.cost_model.fusion import Fusions
from hetpart.graph.ir import Graph, Op

Likenesses = Sequence[int | None]
"""A number for every op. Ops of one number agree in all that a price may depend on; None is for ops with bodies."""


def likenesses(graph: Graph, fusions: Fusions) -> Likenesses:
    """Which ops of ``graph`` are alike.

    That is the op itself but for its names, and of every operand its type, size, role, what it holds where that
    is known, and whether a fused kernel keeps it inside.
    """
    keys: dict[Hashable, int] = {}
    operands = [keys.setdefault(_operand(graph, fusions, value), len(keys)) for value in range(len(graph.values))]
    kinds: dict[Hashable, int] = {}
    return [None if op.bodies else kinds.setdefault(_op(op, operands, fusions), len(kinds)) for op in graph.ops]


def _operand(graph: Graph, fusions: Fusions, number: int) -> Hashable:
    value = graph.values[number]
    if value.producer is None:
        return (value.kind, value.role, value.dtype, value.shape, value.nbytes, value.content)
    inner = fusions.absorbed[value.producer]
    origin = _origin(graph.ops[value.producer], graph) if inner else None
    return (value.kind, value.role, value.dtype, value.shape, value.nbytes, inner, origin)


def _origin(op: Op, graph: Graph) -> Hashable:
    """What a consumer that is fused with ``op`` may ask of it: its type, and the dtypes it reads."""
    return (op.domain, op.op_type, *(graph.values[value].dtype for value in op.uses))


def _op(op: Op, operands: list[int], fusions: Fusions) -> Hashable:
    read = op.inputs
    return (
        op.domain,
        op.op_type,
        op.version,
        op.usage,
        fusions.absorbed[op.id],
        op.id in fusions.gone,
        fusions.in_place[op.id],
        tuple(op.attributes.items()),
        tuple([-1 if value is None else operands[value] for value in op.inputs]),
        tuple([-1 if value is None else operands[value] for value in op.outputs]),
        tuple(map(read.index, read)) if len(set(read)) < len(read) else None,
    )
