"""A graph with its uses looked up, for what asks who makes and who reads a value."""

from __future__ import annotations

from dataclasses import dataclass

from hetpart.graph.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class Wiring:
    """A graph with its uses looked up."""

    graph: Graph
    consumers: tuple[tuple[int, ...], ...]
    returned: frozenset[int]

    @staticmethod
    def of(graph: Graph) -> Wiring:
        return Wiring(graph, graph.consumers(), frozenset(graph.outputs))

    def sole_consumer(self, op: Op) -> Op | None:
        """The one op that uses all that ``op`` makes; None where several do, or the caller."""
        if len(op.results) != 1 or op.results[0] in self.returned:
            return None
        users = self.consumers[op.results[0]]
        return self.graph.ops[users[0]] if len(users) == 1 else None

    def producer(self, value: int | None) -> Op | None:
        made_by = None if value is None else self.graph.values[value].producer
        return None if made_by is None else self.graph.ops[made_by]

    def others(self, op: Op, value: int) -> tuple[int, ...]:
        """Inputs of ``op`` beside ``value``."""
        return tuple(v for v in op.inputs if v is not None and v != value)


def is_op(op: Op | None, *op_types: str) -> bool:
    """Whether there is an op, and it is of one of these types of ``ai.onnx``."""
    return op is not None and not op.domain and op.op_type in op_types
