"""A graph with its uses looked up, for what asks who makes and who reads a value.

What ONNX Runtime takes out of a session before it fuses is looked through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetpart.cost_model.session.simplify import Simplified, simplified
from hetpart.graph.ir import Graph, Op, Value


@dataclass(frozen=True, slots=True)
class Wiring:
    """A graph with its uses looked up."""

    graph: Graph
    simple: Simplified
    consumers: Mapping[int, tuple[int, ...]]
    """Ids of the ops that read a value, whatever it is called there."""
    returned: frozenset[int]

    @classmethod
    def of(cls, graph: Graph) -> Wiring:
        """As a session that runs all of ``graph`` has it."""
        returned = frozenset(graph.outputs)
        simple = simplified(graph, range(len(graph.ops)), returned)
        found: dict[int, list[int]] = {}
        for op in simple.ops:
            for value in dict.fromkeys((*op.inputs, *op.captures)):
                if value is not None:
                    users = found.setdefault(simple.value(value), [])
                    if not users or users[-1] != op.id:
                        users.append(op.id)
        return cls(graph, simple, {value: tuple(ops) for value, ops in found.items()}, returned)

    def users(self, op: Op) -> tuple[int, ...]:
        """Every op that reads the one result of ``op``; none where the caller does, or there are several."""
        results = op.results
        if len(results) != 1 or results[0] in self.returned:
            return ()
        return self.consumers.get(results[0], ())

    def sole_consumer(self, op: Op) -> Op | None:
        """The one op that uses all that ``op`` makes; None where several do, or the caller."""
        users = self.users(op)
        return self.graph.ops[users[0]] if len(users) == 1 else None

    def inputs(self, op: Op) -> tuple[int | None, ...]:
        """What ``op`` reads by position, under the name it is made as."""
        same = self.simple.same
        return tuple([v if v is None or v not in same else self.simple.value(v) for v in op.inputs])

    def operands(self, op: Op) -> tuple[Value | None, ...]:
        """The values of ``inputs``."""
        values = self.graph.values
        return tuple([None if v is None else values[v] for v in self.inputs(op)])

    def producer(self, value: int | None) -> Op | None:
        made_by = None if value is None else self.graph.values[self.simple.value(value)].producer
        return None if made_by is None else self.graph.ops[made_by]

    def others(self, op: Op, value: int) -> tuple[int, ...]:
        """Inputs of ``op`` beside ``value``."""
        return tuple([v for v in self.inputs(op) if v is not None and v != value])

    def is_returned(self, op: Op) -> bool:
        """Whether the caller gets what ``op`` makes."""
        return not self.returned.isdisjoint(op.results)


def is_op(op: Op | None, *op_types: str) -> bool:
    """Whether there is an op, and it is of one of these types of ``ai.onnx``."""
    return op is not None and not op.domain and op.op_type in op_types
