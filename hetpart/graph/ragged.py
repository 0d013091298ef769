"""Parts of a whole that a loop takes one after another, between bounds that it looks up in a list of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetpart.graph.ir import Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOOPS = frozenset({"Loop", "Scan"})
LOOKUPS = frozenset({"Gather", "Slice"})
FORMS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops that hand a bound on as it is."""
STARTS, ENDS = 1, 2
"""Inputs of Slice."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A number that is ``plus`` more than a value."""

    base: str
    plus: int


@dataclass(slots=True)
class Bounds:
    """What is known, in the body of a loop and the branches in it, of what differs from turn to turn."""

    turning: set[str] = field(default_factory=set[str])
    """Values that differ."""
    entries: dict[str, int] = field(default_factory=dict[str, int])
    """Of values that are looked up by them in a list, the length of that list."""
    sums: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    """Of values that differ, what they are more than others."""
    constants: dict[str, int] = field(default_factory=dict[str, int])
    """Single numbers that other forms of constants hold."""

    def within(self, op_type: str, own: Iterable[str]) -> Bounds:
        """The same in a body of an op, whose inputs are ``own``."""
        turning = self.turning | set(own if op_type in LOOPS else ())
        return Bounds(turning, dict(self.entries), dict(self.sums), dict(self.constants))

    def note(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        first: Shape | None,
        contents: Mapping[str, NDArray[Any]],
    ) -> None:
        """What a node tells of its outputs; ``first`` is the shape of its first input."""
        if not self.turning or not inputs or not outputs:
            return
        if self.turning.isdisjoint(inputs):
            number = self._number(inputs[0], contents)
            if op_type in FORMS and number is not None:
                self.constants[outputs[0]] = number
            return
        self.turning.update(outputs)
        if op_type in FORMS:
            self.sums[outputs[0]] = self._sum(inputs[0])
            if inputs[0] in self.entries:
                self.entries[outputs[0]] = self.entries[inputs[0]]
        elif op_type == "Add":
            added = {name: self._number(name, contents) for name in inputs}
            self.sums.update(
                (outputs[0], _Sum(self._sum(other).base, self._sum(other).plus + number))
                for other, name in zip(inputs, reversed(inputs), strict=True)
                if (number := added[name]) is not None
            )
        elif op_type in LOOKUPS and inputs[0] not in self.turning and first is not None and len(first) == 1:
            self.entries[outputs[0]] = first[0] or 1

    def longest(self, inputs: Sequence[str], size: int) -> int:
        """Elements that a Slice takes of ``size`` along its axis at most, on average over the turns of its loop.

        What reaches from one entry of a list to another is a part of a whole, of which each begins where one ended.
        """
        if len(inputs) <= ENDS:
            return size
        start, end = self._sum(inputs[STARTS]), self._sum(inputs[ENDS])
        if start.base == end.base and end.plus > start.plus:
            return min(size, end.plus - start.plus)
        if inputs[0] in self.turning:
            return size
        parts = min(self.entries.get(inputs[STARTS], 1), self.entries.get(inputs[ENDS], 1))
        return -(-size // parts)

    def _sum(self, name: str) -> _Sum:
        return self.sums.get(name, _Sum(name, 0))

    def _number(self, name: str, contents: Mapping[str, NDArray[Any]]) -> int | None:
        known = contents.get(name)
        return self.constants.get(name) if known is None or known.size != 1 else int(known.reshape(-1)[0])
