"""Which kernels of a session write into memory of their own: ONNX Runtime's allocation planner.

Before a session runs, every value gets a buffer: that of the value it is a view of, that of an input it may overwrite,
that of a value of the same shape that is done with, or a new one. A buffer goes back to the arena when the last value
that shares it is done with, so that buffers of different shapes are held side by side for long. A thrifty session,
which is told to reuse no memory, gives no value the buffer of another of its shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hetpart.cost_model.memory import NO_SCRATCH, Scratch

Form = tuple[int, ...]
"""Dimensions of a tensor, and the bits of an element."""


@dataclass(frozen=True, slots=True)
class Made:
    """A value that a kernel makes."""

    value: int
    nbytes: int
    form: Form | None
    """``None`` where it is not known before a run: nothing can take such a value's place."""
    view_of: int | None = None
    over: tuple[int, ...] = ()
    """Inputs that the kernel may overwrite with it."""
    parts: tuple[int, ...] | None = None
    """Of a sequence, bytes of each tensor that is made for it: they are taken one by one, in every run."""
    seen: Form | None = None
    """The form in which it is read, where a view behind the kernel gives it another."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What ONNX Runtime runs as one node."""

    reads: tuple[int, ...]
    """Values by position; one that stands there twice counts twice. Weights are left out."""
    makes: tuple[Made, ...]
    scratch: Scratch = NO_SCRATCH
    ops: tuple[int, ...] = ()
    """What it computes; none where it brings channels into blocks or back."""
    views: int = 0
    """Nodes beside it that only give its operands other shapes."""
    op_type: str = ""
    """What it computes, where its ops do not tell: of an op that becomes several kernels, or with channels last."""
    holds: tuple[int, ...] = ()
    """Values whose tensors are in the sequences it reads: none of them goes before those."""

    @property
    def needs(self) -> tuple[int, ...]:
        return (*self.reads, *self.holds)


@dataclass(frozen=True, slots=True)
class Step:
    """What a kernel does to the arena."""

    allocates: tuple[Made, ...]
    scratch: Scratch
    releases: tuple[int, ...]
    """Buffers, by the value they were allocated for."""


def plan_buffers(kernels: Sequence[Kernel], kept: Iterable[int], *, thrifty: bool = False) -> tuple[Step, ...]:
    """Per kernel, in the order they run, what it takes from the arena and what is given back behind it.

    Args:
        kernels: In the order they run.
        kept: Values in memory of the caller: inputs and outputs of the session.
        thrifty: Whether no buffer waits for another value of its shape.
    """
    return _planned(kernels, kept, thrifty=thrifty).steps(kernels)


def buffer_owners(kernels: Sequence[Kernel], kept: Iterable[int]) -> Mapping[int, int]:
    """The value that each lies in the memory of, by itself where it has its own, in a thrifty session."""
    return _planned(kernels, kept, thrifty=True).buffer


def overwriting(kernels: Sequence[Kernel], kept: Iterable[int]) -> frozenset[int]:
    """Values that are written over an input of their kernel; the arguments are those of ``plan_buffers``."""
    return frozenset(_planned(kernels, kept).over)


def _planned(kernels: Sequence[Kernel], kept: Iterable[int], *, thrifty: bool = False) -> _Plan:
    plan = _Plan.of(kernels, frozenset(kept))
    for kernel in kernels:
        for made in kernel.makes:
            plan.place(made, thrifty=thrifty)
        for value in (*kernel.needs, *(made.value for made in kernel.makes)):
            plan.use(value)
    return plan


@dataclass(slots=True)
class _Plan:
    kept: frozenset[int]
    left: Counter[int]
    """Uses of each buffer that are still to come."""
    buffer: dict[int, int]
    """Of each value, the one whose memory it lies in."""
    forms: dict[int, Form | None]
    seen: dict[int, Form | None]
    """The form in which a value is read."""
    done: dict[Form, list[int]]
    """Buffers that nothing uses any more, by the form they were allocated for."""
    owners: set[int]
    over: set[int]
    """Values that are written over an input of their kernel."""

    @classmethod
    def of(cls, kernels: Sequence[Kernel], kept: frozenset[int]) -> _Plan:
        left = Counter(kept)
        for kernel in kernels:
            left.update(kernel.needs)
            left.update(made.value for made in kernel.makes)
        forms = {made.value: made.form for kernel in kernels for made in kernel.makes}
        seen = {made.value: made.seen or made.form for kernel in kernels for made in kernel.makes}
        return cls(kept, left, {value: value for value in left}, forms, seen, {}, set(), set())

    def place(self, made: Made, *, thrifty: bool) -> None:
        if made.value in self.kept:
            return
        overwritten = None if made.view_of is not None else self._overwritten(made)
        if overwritten is not None:
            self.over.add(made.value)
        source = made.view_of if overwritten is None else overwritten
        if source is None and not thrifty:
            source = self._taken_over(made)
        if source is None:
            self.owners.add(made.value)
            return
        owner = self.buffer[source]
        self.buffer[made.value] = owner
        self.left[owner] += self.left[made.value]

    def _overwritten(self, made: Made) -> int | None:
        """The first input that is not used again and has the form of the output."""
        return next((v for v in made.over if self._last_use(v) and made.form and self.seen.get(v) == made.form), None)

    def _last_use(self, value: int) -> bool:
        return self.left[self.buffer[value]] == 1

    def _taken_over(self, made: Made) -> int | None:
        waiting = self.done.get(made.form, []) if made.form is not None and len(made.form) > 1 else []
        return waiting.pop() if waiting else None

    def use(self, value: int) -> None:
        owner = self.buffer[value]
        self.left[owner] -= 1
        form = self.forms.get(owner)
        if self.left[owner] == 0 and form is not None and owner not in self.kept:
            self.done.setdefault(form, []).append(owner)

    def steps(self, kernels: Sequence[Kernel]) -> tuple[Step, ...]:
        last: dict[int, int] = {}
        for position, kernel in enumerate(kernels):
            for value in (*kernel.needs, *(made.value for made in kernel.makes)):
                last[self.buffer[value]] = position
        released: list[list[int]] = [[] for _ in kernels]
        for owner, position in last.items():
            if owner in self.owners:
                released[position].append(owner)
        return tuple(
            Step(tuple(made for made in kernel.makes if made.value in self.owners), kernel.scratch, tuple(gone))
            for kernel, gone in zip(kernels, released, strict=True)
        )
