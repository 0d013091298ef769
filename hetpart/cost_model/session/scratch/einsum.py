"""Einsum: operands brought into one order of axes, multiplied pair by pair, and the last product copied out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.einsum import Axes, Equation
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import Trace, scratch


@scratch("Einsum")
def _einsum(o: Operands, _: int) -> Scratch:
    equation = Equation.of(o)
    return NO_SCRATCH if equation is None else _Einsum(equation, Trace()).run()


@dataclass(frozen=True, slots=True)
class _Operand:
    """What is multiplied: its elements by label, and the block it lies in where that is not the input's."""

    sizes: dict[str, int]
    block: int | None

    def size(self, label: str) -> int:
        return self.sizes.get(label, 1)

    @property
    def numel(self) -> int:
        return prod(self.sizes.values())


@dataclass(frozen=True, slots=True)
class _Einsum:
    equation: Equation
    trace: Trace

    def run(self) -> Scratch:
        """All it takes; the output comes when the last product is there, and before what that was made from goes."""
        operands = [self._in_order(position) for position in range(len(self.equation.terms))]
        result, axes = self._reduced(operands[0], self.equation.last_seen(0)), list(self.equation.order)
        if len(operands) == 1:
            return self.trace.scratch(self._finish(result, axes))
        made_at = 0
        for position, operand in enumerate(operands[1:], 1):
            before = result
            result, axes, laid_out = self._product(before, operand, self.equation.last_seen(position))
            if position + 1 < len(operands):
                result = self._back_in_order(result, axes)
            else:
                made_at = self._finish(result, axes)
            self.trace.give_back(*laid_out, *(block for block in (before.block,) if block is not None))
        return self.trace.scratch(made_at)

    def _finish(self, result: _Operand, axes: Sequence[str]) -> int:
        """The moment of the output, and what it takes to bring ``result`` into the output's order."""
        made_at = self.trace.next_moment()
        if [label for label in axes if label in self.equation.made] != list(self.equation.made):
            self.trace.give_back(self._take(result.numel))
        return made_at

    def _take(self, numel: int) -> int:
        return self.trace.take(numel * self.equation.width)

    def _in_order(self, position: int) -> _Operand:
        """The operand with its axes in the order of all labels: a copy where they are in another.

        Before that the diagonal is taken of axes with one label, of each pair in turn.
        """
        term, sizes = self.equation.terms[position], self.equation.sizes[position]
        axes, seen = [*term], 0
        operand = _Operand(sizes, None)
        for label in term:
            if label not in axes[:seen]:
                seen += 1
                continue
            operand = _Operand(sizes, self._diagonal(operand.block, axes, seen, sizes))
            del axes[seen]
        if axes == [label for label in self.equation.order if label in sizes]:
            return operand
        moved = _Operand(sizes, self._take(operand.numel))
        self.trace.give_back(*(block for block in (operand.block,) if block is not None))
        return moved

    def _diagonal(self, before: int | None, axes: Sequence[str], second: int, sizes: Mapping[str, int]) -> int:
        """Of the axis ``second`` and the one before with its label; others than the last two are turned to be those."""
        whole = prod(sizes[label] for label in axes)
        part = whole // max(1, sizes[axes[second]])
        first = axes.index(axes[second])
        passing = [before]
        if (first, second) != (len(axes) - 2, len(axes) - 1):
            passing += [self._take(whole), self._take(part)]
        made = self._take(part)
        self.trace.give_back(*(block for block in passing if block is not None))
        return made

    def _reduced(self, operand: _Operand, gone: frozenset[str]) -> _Operand:
        """``operand`` summed up along labels that it alone has."""
        if not gone & operand.sizes.keys():
            return operand
        sizes = {label: size for label, size in operand.sizes.items() if label not in gone}
        return _Operand(sizes, self._take(prod(sizes.values())))

    def _product(self, left: _Operand, right: _Operand, gone: frozenset[str]) -> tuple[_Operand, list[str], list[int]]:
        """The product of two, the order of its axes, and the blocks of copies that it was made from."""
        axes = Axes.of(self.equation.order, left.sizes, right.sizes, gone)
        taken = [*self._laid_out(left, right, gone, axes.left), *self._laid_out(right, left, gone, axes.right)]
        sizes = {label: max(left.size(label), right.size(label)) for label in (*axes.both, *axes.own, *axes.rest)}
        return _Operand(sizes, self._take(prod(sizes.values()))), axes.left, taken

    def _laid_out(self, operand: _Operand, other: _Operand, gone: frozenset[str], axes: Sequence[str]) -> list[int]:
        """A copy of ``operand`` as the product reads it, none where it lies so; what it alone has is summed up."""
        alone = frozenset(label for label in gone if operand.size(label) > 1 and other.size(label) == 1)
        summed = self._reduced(operand, alone)
        blocks = [] if summed is operand or summed.block is None else [summed.block]
        if list(axes) == list(self.equation.order) or (blocks and self._keeps_order(summed, axes)):
            return blocks
        return [*blocks, self._take(summed.numel)]

    def _keeps_order(self, operand: _Operand, axes: Sequence[str]) -> bool:
        """Whether axes of more than one element stand as they stood: then the copy is a view."""
        return [a for a in axes if operand.size(a) > 1] == [a for a in self.equation.order if operand.size(a) > 1]

    def _back_in_order(self, product: _Operand, axes: Sequence[str]) -> _Operand:
        if self._keeps_order(product, axes) or product.block is None:
            return product
        moved = _Operand(product.sizes, self._take(product.numel))
        self.trace.give_back(product.block)
        return moved
