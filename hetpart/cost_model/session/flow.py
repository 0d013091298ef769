"""What kernels read of what flows, and which images lie with channels last on their way through kernels of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetpart.cost_model.session.integers import (
    before_dequantized,
    computed_on_integers,
    is_of_any_order,
    is_on_the_way,
    wanted_last,
)
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class Flow:
    """Of one session."""

    graph: Graph
    simple: Simplified
    on_cpu: bool

    def into(self, op: Op) -> tuple[int, ...]:
        """What ``op`` reads, weights left out; what stands there twice counts twice."""
        return self._computed([self.simple.value(v) for v in (*op.inputs, *op.captures) if v is not None])

    def read(self, members: tuple[Op, ...]) -> tuple[int, ...]:
        """What the kernel of ``members`` reads: on integers, what was dequantized for it."""
        on_integers = computed_on_integers(members) if self.on_cpu else None
        if on_integers is not None:
            return self._computed([before_dequantized(v, self.graph, self.simple) for v in self.into(on_integers)])
        inside = {value for op in members for value in op.results}
        return tuple([value for op in members for value in self.into(op) if value not in inside])

    def _computed(self, values: list[int]) -> tuple[int, ...]:
        return tuple([value for value in values if not self.graph.values[value].is_constant])


@dataclass(slots=True)
class ChannelsLast:
    """Images that lie so."""

    flow: Flow
    groups: Sequence[tuple[Op, ...]]
    """Ops that share a kernel, of all kernels."""
    values: set[int] = field(default_factory=set[int])
    """Those that do by now."""
    _wanted: frozenset[int] | None = None
    """``wanted_last``, once somebody asked."""

    def stays(self, members: tuple[Op, ...]) -> bool:
        """Whether all that the kernel reads lies with channels last, and so may what it makes."""
        on_the_way = is_on_the_way(members, self.flow.graph)
        if not on_the_way and not is_of_any_order(members, self.flow.graph):
            return False
        reads = self.flow.read(members)
        if not reads or not self.values.issuperset(reads):
            return False
        return not on_the_way or members[-1].results[0] in self._wanted_last()

    def _wanted_last(self) -> frozenset[int]:
        if self._wanted is None:
            self._wanted = wanted_last(self.groups, self.flow.read, self.flow.graph)
        return self._wanted
