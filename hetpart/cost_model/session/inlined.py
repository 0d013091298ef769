"""The values of a function's body among those of the session it is put into."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from hetpart.cost_model.session.reuse import Kernel, Made
from hetpart.cost_model.session.simplify import Simplified
from hetpart.cost_model.session.widened import HALVES
from hetpart.graph.ir import Graph, Op

_CAST = "Cast"
GIVEN, MADE = "given", "made"
"""What ``schema_body`` calls inputs and outputs, before their position."""
WIDE_BLOCKS = 2
"""By how many times the count of values the number is lowered of one in blocks that is in half precision otherwise."""
FORMS = 3
"""Such numbers of the session itself: of what a value is, of the gate that it is made by, and of that in blocks."""


@dataclass(slots=True)
class BodyNumbers:
    """Numbers of the body of ``op``: its ends are values of the session; what is between has numbers below all others.

    Such a number leaves, by the count of the session's values, the result of ``op``.
    """

    op: Op
    body: Graph
    graph: Graph
    simple: Simplified
    before: int
    """Values of other bodies that have numbers."""
    inner: dict[int, int] = field(default_factory=dict[int, int])

    def given(self, there: Container[int]) -> Iterator[int]:
        """The numbers that the body itself has for what is ``there`` of what it is given, in either form."""
        for value in self.body.inputs:
            yield from (number for number in (value, -1 - value) if self.outer(number) in there)

    def outer(self, number: int) -> int:
        """The session's number for the body's: what the body has in half precision may be in float32 there."""
        end = self._end(number if number >= 0 else -1 - number)
        if end is not None:
            return end if number >= 0 or self.graph.values[end].dtype not in HALVES else -1 - end
        if number not in self.inner:
            above = FORMS + self.before + len(self.inner)
            self.inner[number] = -1 - above * len(self.graph.values) - self.op.results[0]
        return self.inner[number]

    def _end(self, value: int) -> int | None:
        """The value of the session that ``value`` of the body is."""
        side, _, position = self.body.values[value % len(self.body.values)].name.partition(" ")
        ends = {GIVEN: self.op.inputs, MADE: self.op.outputs}.get(side) if position.isdecimal() else None
        end = None if ends is None or value >= len(self.body.values) else ends[int(position)]
        return None if end is None else self.simple.value(end)

    def renumbered(self, kernel: Kernel, ops: tuple[int, ...]) -> Kernel:
        """A kernel of the body as one of the session, which computes ``ops`` there."""
        last = self.body.ops[kernel.ops[-1]] if kernel.ops else None
        return replace(
            kernel,
            reads=tuple(map(self.outer, kernel.reads)),
            makes=tuple(map(self._made, kernel.makes)),
            ops=ops if kernel.ops else (),
            op_type=kernel.op_type or (_CAST if last is None else last.op_type),
        )

    def _made(self, made: Made) -> Made:
        view = None if made.view_of is None else self.outer(made.view_of)
        return replace(made, value=self.outer(made.value), view_of=view, over=tuple(map(self.outer, made.over)))
