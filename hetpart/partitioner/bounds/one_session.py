"""A passage through the placements that have one session on the accelerator, op by op.

What runs before it, in it and behind it never falls along an edge: the session reads nothing of what an op behind it
makes. All that enters it or leaves it is in buffers for as long as it runs, so that bytes of buffers add up as weights'
do; all else that is made there is alive from its maker to its last reader, in the order that ops have. So a state only
says of every value that is still to be read where it was made, and whether it was brought or is to leave: few enough
also where a model has branches that lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.in_order import InOrder
from hetpart.partitioner.bounds.passage import Layers, layered
from hetpart.partitioner.bounds.passage_states import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.partitioner.bounds.in_order import Value
    from hetpart.partitioner.problem import PlacementProblem


class _Label(IntEnum):
    """Where a value was made, and what is to come."""

    BEFORE = 0
    """On the host, not behind the session; or given."""
    BROUGHT = 1
    """The same, and copied to the session."""
    INSIDE = 2
    """In the session, where all that read it are."""
    LEAVES = 3
    """In the session, and an op on the host is to read it."""
    COPIED = 4
    """In the session, and on the host as well."""
    BEHIND = 5
    """On the host, behind the session."""


_Labels = tuple[tuple[int, int], ...]
"""(value, label) of all that is still to be read; (−1 − group, device) of groups with ops on both sides."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What may become of a value at its maker."""

    label: _Label
    seconds: float = 0.0
    nbytes: int = 0
    inside: int = 0


def one_session(problem: PlacementProblem) -> Layers | None:
    """The layers of placements with one session at most, whose bytes are off the budget; None where they are wide."""
    passage = _OneSession(InOrder.of(problem), int(problem.budgets[ACCELERATOR]))
    layers = layered(passage.start, range(problem.ops), passage.steps, lambda _: 0)
    return None if layers is None else Layers(layers, (1,) * problem.ops)


@dataclass(frozen=True, slots=True, eq=False)
class _OneSession:
    ops: InOrder
    budget: int

    @property
    def start(self) -> _Labels:
        given = enumerate(self.ops.values)
        return tuple((value, int(_Label.BEFORE)) for value, one in given if one.maker < 0 and one.last >= 0)

    def steps(self, op: int, state: _Labels) -> Iterator[tuple[_Labels, Step]]:
        """All that may follow at ``op``."""
        own, labels = -1 - self.ops.group[op], dict(state)
        sides = (labels[own],) if own in labels else self.ops.sides[op]
        for side in sides:
            yield from self._there(op, labels) if side == ACCELERATOR else self._here(op, labels)

    def _here(self, op: int, before: dict[int, int]) -> Iterator[tuple[_Labels, Step]]:
        labels, seconds, behind = dict(before), float(self.ops.problem.seconds[0, op]), False
        for value in self.ops.read[op]:
            label = labels[value]
            if label == _Label.INSIDE:
                return
            behind |= label >= _Label.LEAVES
            if label == _Label.LEAVES:
                seconds += self.ops.values[value].down
                labels[value] = _Label.COPIED
        made = int(_Label.BEHIND if behind else _Label.BEFORE)
        labels |= dict.fromkeys(self.ops.made[op], made)
        found = self._behind(op, labels, side=0)
        if found is not None:
            yield found, Step(seconds, 0.0, 0, -1, 0, 0, True, 0)

    def _there(self, op: int, before: dict[int, int]) -> Iterator[tuple[_Labels, Step]]:
        ops, labels = self.ops, dict(before)
        problem, group = ops.problem, ops.group[op]
        seconds, nbytes = float(problem.seconds[1, op]), ops.weights[group] if ops.first[group] == op else 0.0
        for value, (there, _) in ops.read[op].items():
            if there and labels[value] == _Label.BEHIND:
                return
            if there and labels[value] == _Label.BEFORE:
                seconds += ops.values[value].up
                nbytes += ops.values[value].nbytes
                labels[value] = _Label.BROUGHT
        inside = ops.beside[op]
        inside += sum(ops.inner(op, value) for value, one in labels.items() if value >= 0 and one == _Label.INSIDE)
        for chosen in product(*(_made(ops.values[value], ops.inner(op, value)) for value in ops.made[op])):
            made = {value: int(one.label) for value, one in zip(ops.made[op], chosen, strict=True)}
            found = self._behind(op, labels | made, side=1)
            held = nbytes + sum(one.nbytes for one in chosen)
            if found is not None and held <= self.budget:
                alive = inside + sum(one.inside for one in chosen)
                yield found, Step(seconds + sum(one.seconds for one in chosen), held, 0, -1, alive, 0, True, 1)

    def _behind(self, op: int, labels: dict[int, int], side: int) -> _Labels | None:
        """The state of what is still to be read; nothing where something was to leave that nothing has read."""
        ops, left = self.ops, dict[int, int]()
        for value, label in labels.items():
            if value < 0:
                left[value] = label
            elif ops.values[value].last > op:
                left[value] = self._same(op, ops.values[value], label)
            elif label == _Label.LEAVES:
                return None
        own = -1 - ops.group[op]
        left.pop(own, None)
        if ops.last[ops.group[op]] > op:
            left[own] = side
        return tuple(sorted(left.items()))

    def _same(self, op: int, value: Value, label: int) -> int:
        """Of labels that make no difference any more the same one."""
        return int(_Label.BEFORE) if label == _Label.BROUGHT and value.last_there <= op else label


def _made(value: Value, inner: int) -> tuple[_Made, ...]:
    """Of a value that an op of the session makes, which takes ``inner`` bytes more where it stays there."""
    if value.on_host:
        return (_Made(_Label.BEFORE),)
    if value.copied:
        return (_Made(_Label.COPIED, value.down, value.nbytes),)
    inside = _Made(_Label.INSIDE, inside=inner)
    return (inside, _Made(_Label.LEAVES, nbytes=value.nbytes)) if value.last >= 0 else (inside,)
