"""Einsum as ONNX Runtime computes it: operands are summed up first, then multiplied pair by pair from the left.

Both providers do so, and PyTorch where it is not told of a better order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.along_axes import ROW_CYCLES
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.formulas.table import bytes_read, bytes_written, flops, launches, serial_cycles, spread_cycles

CALL_CYCLES, LONE_CYCLES = 500.0, 7.0
"""Of every product of a batch, each of which is a call of its own, and of each multiply-add of a row with a column,
where each waits for the one before. 2.5 times the nanoseconds measured on a 2.5 GHz Xeon with AVX-512 and ONNX Runtime
1.31: 553 and 504 cycles an element of ``ij,ij->ij`` of 2^14 and 2^19, 7.5 of ``bi,bi->b`` of 512 rows of 1024."""


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation with the sizes of what it speaks of."""

    order: tuple[str, ...]
    """Every label, those of an ellipsis first, then as they come."""
    terms: tuple[tuple[str, ...], ...]
    made: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]
    """Of each operand, by label; a label that it lacks has one element."""
    width: float
    """Bytes of an element."""

    @classmethod
    def of(cls, o: Operands) -> Equation | None:
        """None where it does not speak of as many operands as there are."""
        shapes = [o.shape(position) for position, value in enumerate(o.inputs) if value is not None]
        left, arrow, right = str(o.attribute("equation", "")).replace(" ", "").partition("->")
        texts, first = left.split(","), o.input(0)
        if first is None or len(texts) != len(shapes):
            return None
        terms = [tuple(labels(text, len(shape))) for text, shape in zip(texts, shapes, strict=True)]
        order = tuple(dict.fromkeys(label for term in terms for label in term))
        order = tuple(sorted(order, key=lambda label: not label.startswith(ELLIPSIS)))
        sizes = [dict(zip(term, shape, strict=False)) for term, shape in zip(terms, shapes, strict=True)]
        made = tuple(labels(right, len(o.output_shape()))) if arrow else _implied(order, terms)
        return cls(order, tuple(terms), made, tuple(sizes), element_bytes(first))

    def last_seen(self, position: int) -> frozenset[str]:
        """Labels that no later operand has, nor the output."""
        later = {label for term in self.terms[position + 1 :] for label in term}
        return frozenset(self.order) - later - frozenset(self.made) - self._before(position)

    def _before(self, position: int) -> frozenset[str]:
        """Labels whose last operand came earlier."""
        return frozenset(self.order) - {label for term in self.terms[position:] for label in term}


ELLIPSIS = "..."


def labels(term: str, rank: int) -> list[str]:
    """Labels of a term of an equation, one for each dimension of what it stands for."""
    head, ellipsis, tail = term.partition(ELLIPSIS)
    if not ellipsis:
        return list(term)
    hidden = rank - len(head) - len(tail)
    return [*head, *(f"{ELLIPSIS}{hidden - i}" for i in range(hidden)), *tail]


def _implied(order: Sequence[str], terms: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Without an arrow: an ellipsis, and in the order of the alphabet what is there once."""
    named = [label for term in terms for label in term]
    hidden = [label for label in order if label.startswith(ELLIPSIS)]
    return (*hidden, *sorted(label for label in order if named.count(label) == 1 and label not in hidden))


@dataclass(frozen=True, slots=True)
class Axes:
    """Labels of a product of two operands, by what becomes of them."""

    both: list[str]
    own: list[str]
    """Of the left operand alone."""
    summed: list[str]
    rest: list[str]
    """Of the right operand alone, and of neither."""

    @classmethod
    def of(cls, order: Sequence[str], left: Mapping[str, int], right: Mapping[str, int], gone: frozenset[str]) -> Axes:
        """Of operands of these sizes, of which ``gone`` are summed up."""
        both = [label for label in order if label not in gone and left.get(label, 1) > 1 and right.get(label, 1) > 1]
        own = [label for label in order if label not in gone and left.get(label, 1) > 1 and right.get(label, 1) == 1]
        rest = [label for label in order if label not in gone and label not in (*both, *own)]
        return cls(both, own, [label for label in order if label in gone], rest)

    @property
    def left(self) -> list[str]:
        """The order in which the left operand is read, and the product written."""
        return [*self.both, *self.own, *self.summed, *self.rest]

    @property
    def right(self) -> list[str]:
        return [*self.both, *self.summed, *self.rest, *self.own]


@dataclass(frozen=True, slots=True)
class Product:
    """Products of matrices, one after the other."""

    batches: int
    rows: int
    inner: int
    columns: int

    @property
    def reads(self) -> int:
        """Elements."""
        return self.batches * self.inner * (self.rows + self.columns)

    @property
    def makes(self) -> int:
        return self.batches * self.rows * self.columns

    @property
    def flops(self) -> float:
        """Where nothing is summed up, an element is one multiplication."""
        return float(self.makes * (2 * self.inner if self.inner > 1 else 1))

    @property
    def cycles(self) -> float:
        lone = self.inner if self.rows == self.columns == 1 else 0
        return self.batches * (CALL_CYCLES + LONE_CYCLES * lone)


@dataclass(frozen=True, slots=True)
class Sum:
    """An operand summed up along axes that it alone has."""

    reads: int
    makes: int
    kept: int
    """Elements of the axes behind the last that goes."""
    across: bool
    """Whether there are any such axes, be they of one element: then rows are added to each other (``ij,k->ik``)."""

    @property
    def flops(self) -> float:
        return float(self.reads)

    @property
    def cycles(self) -> float:
        return ROW_CYCLES * self.reads / self.kept if self.across else 0.0


@dataclass(frozen=True, slots=True)
class Copy:
    """An operand or a result brought into another order of axes, or into the output."""

    reads: int
    run: int
    """Elements that stay together."""

    @property
    def makes(self) -> int:
        return self.reads


Step = Product | Sum | Copy


def steps(equation: Equation) -> Iterator[Step]:
    """What is run, in order. The last result is copied into the output, as it is or in the output's order."""
    order = equation.order
    result: dict[str, int] = {}
    axes: Sequence[str] = order
    for position, (term, sizes) in enumerate(zip(equation.terms, equation.sizes, strict=True)):
        yield from _turned(term, order, sizes)
        gone = equation.last_seen(position)
        if not position:
            yield from _summed(order, sizes, gone)
            result = _without(sizes, gone)
            continue
        # The result of all products but the last goes back into the common order.
        yield from _turned(axes, order, result)
        split = Axes.of(order, result, sizes, gone)
        yield from _product(order, result, sizes, split)
        result = {
            label: max(result.get(label, 1), sizes.get(label, 1)) for label in (*split.both, *split.own, *split.rest)
        }
        axes = split.left
    yield from _turned(axes, equation.made, result)
    numel = prod(result.values())
    yield Copy(numel, numel)


def _product(order: Sequence[str], left: dict[str, int], right: dict[str, int], axes: Axes) -> Iterator[Step]:
    """Both sides as the product reads them, and the product."""
    for own, other, wanted in ((left, right, axes.left), (right, left, axes.right)):
        alone = frozenset(label for label in axes.summed if other.get(label, 1) == 1)
        yield from _summed(order, own, alone)
        yield from _turned(order, wanted, _without(own, alone))
    batches, rows, inner, columns = (
        prod(min(side.get(label, 1) for side in sides) for label in group)
        for group, sides in (
            (axes.both, (left,)),
            (axes.own, (left,)),
            (axes.summed, (left, right)),
            (axes.rest, (right,)),
        )
    )
    yield Product(batches, rows, inner, columns)


def _without(sizes: Mapping[str, int], gone: frozenset[str]) -> dict[str, int]:
    return {label: size for label, size in sizes.items() if label not in gone}


def _summed(order: Sequence[str], sizes: Mapping[str, int], gone: frozenset[str]) -> Iterator[Step]:
    present = [label for label in order if sizes.get(label, 1) > 1]
    last = max((place for place, label in enumerate(present) if label in gone), default=None)
    if last is not None:
        kept = prod(sizes[label] for label in present[last + 1 :])
        yield Sum(prod(sizes.values()), prod(_without(sizes, gone).values()), kept, across=order[-1] not in gone)


def _turned(before: Iterable[str], after: Iterable[str], sizes: Mapping[str, int]) -> Iterator[Step]:
    """A copy in another order, where axes of more than one element change places."""
    stand, go = ([label for label in dict.fromkeys(axes) if sizes.get(label, 1) > 1] for axes in (before, after))
    run = 1
    for label, other in zip(reversed(stand), reversed(go), strict=False):
        if label != other:
            yield Copy(prod(sizes.values()), run)
            return
        run *= sizes[label]


def einsum_steps(o: Operands) -> list[Step]:
    """What an Einsum runs; nothing where its equation does not speak of its operands."""
    equation = Equation.of(o)
    return [] if equation is None else list(steps(equation))


@flops("Einsum")
def _flops(o: Operands) -> float:
    """PyTorch counts as much of the products; it counts no sums of one operand, and no products without a sum."""
    return sum(step.flops for step in einsum_steps(o) if not isinstance(step, Copy))


@serial_cycles("Einsum")
def _cycles(o: Operands) -> float:
    return sum(step.cycles for step in einsum_steps(o) if isinstance(step, Product))


def _width(o: Operands) -> float:
    first = o.input(0)
    return 4.0 if first is None else element_bytes(first)


@spread_cycles("Einsum")
def _spread(o: Operands) -> float:
    return sum(step.cycles for step in einsum_steps(o) if isinstance(step, Sum))


@bytes_read("Einsum")
def _read(o: Operands) -> int:
    return round(_width(o) * sum(step.reads for step in einsum_steps(o)))


@bytes_written("Einsum")
def _written(o: Operands) -> int:
    return round(_width(o) * sum(step.makes for step in einsum_steps(o)))


@launches("Einsum")
def _launches(o: Operands) -> int:
    return max(1, len(einsum_steps(o)))
