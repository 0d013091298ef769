"""What each op makes of the states of a passage: where its values go, and what is certainly held meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.passage_states import Block, Label, State, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.partitioner.bounds.in_order import InOrder, Value

WAITING = frozenset({Label.BROUGHT, Label.INSIDE, Label.UNPROVEN, Label.LEAVES, Label.BOTH, Label.PROMISED})
"""Lie on the accelerator."""
NOT_ON_HOST = frozenset({Label.INSIDE, Label.UNPROVEN, Label.LEAVES})
READ_THERE: dict[Label, tuple[Label, Label]] = {
    Label.ON_HOST: (Label.BROUGHT, Label.SPENT),
    Label.BROUGHT: (Label.BROUGHT, Label.SPENT),
    Label.BOTH: (Label.BOTH, Label.COPIED),
    Label.PROMISED: (Label.PROMISED, Label.COPIED),
}
"""What a value may become when it is read on the accelerator: if it waits on, and if not."""
UNTIL_LAST = frozenset({Label.INSIDE, Label.LEAVES, Label.UNPROVEN})
"""Wait until their last reader."""


@dataclass(frozen=True, slots=True)
class _Option:
    """What may become of a value at an op."""

    label: int | None
    """None where nothing reads it any more."""
    between: int = 0
    inside: int = 0
    held: int = 0
    """As of a state."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Moment:
    """An op on a side."""

    op: int
    there: bool
    """Whether that is the accelerator."""
    exact: bool
    """Whether all that waits is certain to."""
    seconds: float
    nbytes: float
    """Of weights."""
    scratch: int
    made: tuple[tuple[_Option, ...], ...]
    """Per value that the op makes."""
    kept: dict[tuple[int, int], tuple[_Option, ...]] = field(
        default_factory=dict[tuple[int, int], "tuple[_Option, ...]"]
    )
    """By value and label, as far as they were asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """All steps of a problem."""

    ops: InOrder
    unit: int = 1
    """What is held is rounded down to a multiple of this: fewer states, and no placement holds less."""
    moments: dict[tuple[int, bool, bool], _Moment] = field(default_factory=dict[tuple[int, bool, bool], _Moment])

    @property
    def session(self) -> int:
        return int(self.ops.problem.session_bytes[ACCELERATOR])

    @property
    def start(self) -> State:
        """Before the first op: only what the caller gives is there."""
        given = [value for value, one in enumerate(self.ops.values) if one.maker < 0 and one.last >= 0]
        block = Block.NONE if self.ops.waist[:1] == [True] else Block.PARTED
        return State(tuple((value, int(Label.ON_HOST)) for value in given), block, 0, False)

    def steps(self, op: int, state: State) -> Iterator[tuple[State, Step]]:
        """All that may follow at ``op``."""
        own = -1 - self.ops.group[op]
        sides = next(((side,) for key, side in state.labels if key == own), self.ops.sides[op])
        waist, whole = self.ops.waist[op], state.block is Block.WHOLE
        for side in sides:
            there = side == ACCELERATOR
            if not (waist and there and state.block is Block.UNPROVEN) and (there or not whole):
                yield from self._on(self._moment(op, there, waist or whole), state)

    def _moment(self, op: int, there: bool, exact: bool) -> _Moment:
        if (op, there, exact) not in self.moments:
            ops, group = self.ops, self.ops.group[op]
            self.moments[op, there, exact] = _Moment(
                op,
                there,
                exact,
                float(ops.problem.seconds[int(there), op]),
                ops.weights[group] if there and ops.first[group] == op else 0.0,
                ops.beside[op] if there else 0,
                tuple(_made(ops.values[value], there, exact, ops.inner(op, value)) for value in ops.made[op]),
            )
        return self.moments[op, there, exact]

    def _on(self, at: _Moment, state: State) -> Iterator[tuple[State, Step]]:
        options, values = list(at.made), [*self.ops.made[at.op]]
        for value, label in state.labels:
            if value >= 0:
                if (value, label) not in at.kept:
                    at.kept[value, label] = self._kept(at, value, Label(label))
                if not at.kept[value, label]:
                    return
                options.append(at.kept[value, label])
                values.append(value)
        goes_on = at.there and (self.ops.linked[at.op] or self._ends_whole(at, state.block))
        begins = at.there and self.ops.waist[at.op] and not (goes_on and state.runs)
        nbytes = at.nbytes + (self.session if begins else 0)
        groups = self._groups(at, state)
        for chosen in product(*options):
            labels = [(value, one.label) for value, one in zip(values, chosen, strict=True) if one.label is not None]
            between, held = sum(one.between for one in chosen), sum(one.held for one in chosen) if at.there else 0
            step = Step(
                at.seconds + sum(one.seconds for one in chosen),
                nbytes,
                0 if goes_on else between,
                between if goes_on else -1,
                at.scratch + sum(one.inside for one in chosen),
                held,
                goes_on,
                int(at.there),
            )
            left = (state.held if goes_on else 0) + held
            left = left // self.unit * self.unit
            for found in self._behind(at, state.block, tuple(sorted([*labels, *groups])), left):
                yield found, step if found.held == left else replace(step, held=0, keeps=False)

    def _ends_whole(self, at: _Moment, block: Block) -> bool:
        """Whether the op and the waist before it share a partition where both are on the accelerator."""
        return at.exact and block in (Block.NONE, Block.WHOLE)

    def _groups(self, at: _Moment, state: State) -> list[tuple[int, int]]:
        """Groups whose side later ops must keep to."""
        own = self.ops.group[at.op]
        groups = [(key, side) for key, side in state.labels if key < 0 and key != -1 - own]
        return [*groups, (-1 - own, int(at.there))] if self.ops.last[own] > at.op else groups

    def _behind(self, at: _Moment, block: Block, kept: tuple[tuple[int, int], ...], held: int) -> Iterator[State]:
        """The states of what lies behind the op."""
        runs = bool(self.session) and at.exact and at.there
        goes_on = self.ops.linked[at.op + 1 : at.op + 2] == [True]
        if self.ops.opens(at.op):
            if at.there:
                yield State(kept, Block.WHOLE, held, runs)
            parted = tuple(self._in_parts(value, label) for value, label in kept)
            yield State(parted, Block.UNPROVEN if at.there else Block.PARTED, held if goes_on else 0, False)
        elif self.ops.waist[at.op] or block is Block.WHOLE:
            yield State(kept, Block.NONE if self.ops.waist[at.op] else block, held, runs)
        else:
            yield State(kept, block if at.there else Block.PARTED, held if goes_on else 0, False)

    def _in_parts(self, value: int, label: int) -> tuple[int, int]:
        """A value with its label, before a block that has something on the host."""
        chained = value < 0 or self.ops.values[value].chained
        return value, label if chained else _proven(label)

    def _kept(self, at: _Moment, number: int, label: Label) -> tuple[_Option, ...]:
        """Of a value that was there before the op; nothing where the op cannot be where it is."""
        value = self.ops.values[number]
        there, here = self.ops.read[at.op].get(number, (False, False))
        if not there and not here:
            return self._passed(at, value, label)
        if label in NOT_ON_HOST and (here or not at.there):
            return ()
        if there and at.there:
            return _read_there(at.op, value, label, self.ops.inner(at.op, number))
        if label in WAITING and value.last_there <= at.op:
            return ()
        label = Label.BOTH if label is Label.PROMISED else label
        waits = label in WAITING and (at.exact or self._certain(at.op, value, label))
        return (_Option(None if value.last <= at.op else label, value.nbytes if waits else 0),)

    def _passed(self, at: _Moment, value: Value, label: Label) -> tuple[_Option, ...]:
        """Of a value that the op does not read."""
        if label not in WAITING:
            return (_Option(label),)
        if not at.there and label is Label.INSIDE and (at.exact or self._lies_between(at.op, value)):
            return ()
        if not at.there:
            label = Label(_proven(label))
        if not at.exact and not self._certain(at.op, value, label):
            return (_Option(label),)
        if label is Label.INSIDE:
            return (_Option(label, inside=value.nbytes if at.there else 0),)
        return (_Option(label, value.nbytes),)

    def _lies_between(self, op: int, value: Value) -> bool:
        """Whether the op must run behind the value's maker, and before one of its readers."""
        return self.ops.leads(value.maker, op) and any(self.ops.leads(op, reader) for reader in value.readers)

    def _certain(self, op: int, value: Value, label: Label) -> bool:
        """Whether a value that waits does so beside the op, whatever the order of partitions."""
        later = all(self.ops.leads(op, reader) for reader in value.readers if reader > op)
        if label is Label.BROUGHT:
            return later and all(self.ops.leads(reader, op) for reader in value.readers if reader < op)
        return later and self.ops.leads(value.maker, op)


def _made(value: Value, there: bool, exact: bool, inner: int) -> tuple[_Option, ...]:
    """Of a value that an op makes, which takes ``inner`` bytes more of its session where it stays inside."""
    if not there or value.on_host:
        return (_Option(Label.ON_HOST if value.last >= 0 else None),)
    nbytes, down = value.nbytes, value.down
    copied = _Option(Label.COPIED if value.last >= 0 else None, nbytes, 0, nbytes, down)
    both = _Option(Label.BOTH if value.copied else Label.PROMISED, nbytes, seconds=down)
    if value.copied:
        return (copied, both) if value.readers else (copied,)
    if not value.readers:
        return (_Option(None, inside=inner),)
    proven = Label.UNPROVEN if exact or value.chained else Label.LEAVES
    alone = _Option(Label.INSIDE, inside=inner), _Option(proven, nbytes)
    return (*alone, copied, both) if len(value.readers) > 1 else (*alone, copied)


def _proven(label: int) -> int:
    return int(Label.LEAVES if label == Label.UNPROVEN else label)


def _read_there(op: int, value: Value, label: Label, inner: int) -> tuple[_Option, ...]:
    """Of a value that the op reads on the accelerator, as ``_made``; nothing where it is not there."""
    more, nbytes = value.last_there > op, value.nbytes
    if label in UNTIL_LAST:
        if not more and label is Label.UNPROVEN:
            return ()
        inside = label is Label.INSIDE
        held = 0 if more or inside else nbytes
        return (_Option(label if more else None, 0 if inside else nbytes, inner if inside else 0, held),)
    if label not in READ_THERE or (label is Label.PROMISED and value.last == op):
        return ()
    waits, ends = READ_THERE[label]
    seconds = value.up if label is Label.ON_HOST else 0.0
    last = _Option(ends if value.last > op else None, nbytes, 0, nbytes, seconds)
    return (_Option(waits, nbytes, seconds=seconds), last) if more else (last,)
