"""The forms in which kernels make a value: as the model has it, in float32 for half precision, channels in blocks."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

from hetpart.cost_model.session.inlined import WIDE_BLOCKS
from hetpart.cost_model.session.layout import Blocks
from hetpart.cost_model.session.reuse import Kernel, Made
from hetpart.cost_model.session.simplify import Simplified
from hetpart.cost_model.session.widened import HALVES
from hetpart.graph.ir import DTYPE_BITS, Graph, Value


def plain_made(value: Value) -> Made:
    """``value`` as the model has it."""
    form = (*[size or 0 for size in value.shape or ()], DTYPE_BITS[value.dtype]) if value.is_static else None
    return Made(value.id, value.nbytes, form)


def wide_made(made: Made) -> Made:
    """A value of half precision in float32."""
    form = None if made.form is None else (*made.form[:-1], 2 * made.form[-1])
    return replace(made, value=-1 - made.value, nbytes=2 * made.nbytes, form=form)


def last_made(value: Value) -> Made:
    """``value`` with its channels last."""
    made = plain_made(value)
    form = None if made.form is None else (made.form[0], *made.form[2:-1], made.form[1], made.form[-1])
    return replace(made, value=-1 - value.id, form=form)


def told_in_halves(kernel: Kernel, floats: Container[int], count: int) -> Kernel:
    """``kernel`` in numbers of a model of ``count`` values that has ``floats``, known to lie in float32, in halves."""

    def number(value: int) -> int:
        if value >= 0:
            return -1 - value if value in floats else value
        return value - WIDE_BLOCKS * count if -1 - value in floats else value

    makes = [
        replace(
            one,
            value=number(one.value),
            view_of=None if one.view_of is None else number(one.view_of),
            over=tuple(map(number, one.over)),
        )
        for one in kernel.makes
    ]
    return replace(kernel, reads=tuple(map(number, kernel.reads)), makes=tuple(makes))


@dataclass(slots=True)
class Forms:
    """In which forms values exist, as kernels come to be.

    A value in blocks, or in float32 where the model has it in half precision, has the number ``-1 - id``: it lies
    beside the plain one. What is in blocks and in half precision in the model has that number lowered by twice as many
    as there are values.
    """

    graph: Graph
    floats: Graph
    """What ``graph`` is where nothing is in half precision."""
    simple: Simplified
    blocks: Blocks
    there: set[int] = field(default_factory=set[int])
    """Numbers of what exists."""
    given: set[int] = field(default_factory=set[int])
    """What the session was given and has brought into another form."""
    brought: set[int] = field(default_factory=set[int])
    """What lies in blocks only because a reader wanted it so: other readers find it as it was."""
    same: dict[int, int] = field(default_factory=dict[int, int])
    """The number of what stands for a value, where that is as it lies."""

    def is_half(self, value: int) -> bool:
        return self.graph.values[value].dtype in HALVES

    def number(self, value: int) -> int:
        """Of the form of ``value`` that kernels in float32 read."""
        return -1 - value if self.is_half(value) else value

    def in_blocks(self, value: int) -> int:
        """The number of ``value`` in blocks."""
        return -1 - value - (WIDE_BLOCKS * len(self.graph.values) if self.is_half(value) else 0)

    def is_blocked(self, value: int) -> bool:
        """Whether it exists in blocks."""
        return self.in_blocks(self.simple.value(value)) in self.there

    def arrives_blocked(self, value: int) -> bool:
        """Whether a kernel makes it so, or what the model has in its place."""
        return self.is_blocked(value) and self.simple.value(value) not in self.brought

    def made_blocked(self, value: int, over: tuple[int, ...] = ()) -> Made:
        """``value`` in blocks, which may lie ``over`` others."""
        image = self.floats.values[value]
        return Made(self.in_blocks(value), self.blocks.nbytes(image), self.blocks.form(image), over=over)

    def made_wide(self, made: Made) -> Made:
        """``made`` by a kernel that computes in float32."""
        view = None if made.view_of is None else self.number(made.view_of)
        made = replace(made, view_of=view, over=tuple(map(self.number, made.over)))
        return wide_made(made) if self.is_half(made.value) else made

    def as_it_lies(self, kernel: Kernel) -> Kernel:
        """``kernel`` reading what stands for what it reads."""
        if self.same.keys().isdisjoint(kernel.reads):
            return kernel

        def lying(value: int) -> int:
            return self.same.get(value, value)

        makes = [
            replace(one, view_of=None if one.view_of is None else lying(one.view_of), over=tuple(map(lying, one.over)))
            for one in kernel.makes
        ]
        return replace(kernel, reads=tuple(map(lying, kernel.reads)), makes=tuple(makes))

    def read(self, value: int) -> None:
        """A kernel reads ``value``; what does not exist the session was given."""
        if value not in self.there:
            self.given.add(value)
            self.there.add(value)
