"""What a formula may see of an op: shapes, dtypes and attributes, with estimates where only a run can tell."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hetpart.graph.ir import DTYPE_BITS, Attribute, Graph, Op, Value


def estimated_shape(value: Value) -> tuple[int, ...]:
    """The value's dimensions; the first unknown one takes what ``numel`` leaves for it, further ones count 1.

    A value of unknown rank counts as one-dimensional.
    """
    if value.shape is None:
        return (value.numel,)
    if value.is_static:
        return tuple([d for d in value.shape if d is not None])
    rest = value.numel // max(1, prod(d for d in value.shape if d is not None))
    dimensions: list[int] = []
    for dimension in value.shape:
        dimensions.append(rest if dimension is None else dimension)
        rest = 1 if dimension is None else rest
    return tuple(dimensions)


def element_bytes(value: Value) -> float:
    """Bytes one element takes; 4 where the dtype is unknown."""
    return DTYPE_BITS.get(value.dtype, 32) / 8


@dataclass(frozen=True, slots=True)
class Operands:
    """An op with its values by position. What is left out has no elements and no bytes, so formulas need no guards."""

    op: Op
    graph: Graph
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]

    @staticmethod
    def of(op: Op, graph: Graph) -> Operands:
        return Operands(op, graph, graph.in_values(op), graph.out_values(op))

    def input(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self, position: int = 0) -> Value | None:
        return self.outputs[position] if position < len(self.outputs) else None

    def shape(self, position: int) -> tuple[int, ...]:
        """Dimensions of input ``position``; ``()`` where it is left out."""
        value = self.input(position)
        return () if value is None else estimated_shape(value)

    def output_shape(self, position: int = 0) -> tuple[int, ...]:
        value = self.output(position)
        return () if value is None else estimated_shape(value)

    def numel(self, position: int) -> int:
        value = self.input(position)
        return 0 if value is None else value.numel

    def output_numel(self, position: int = 0) -> int:
        value = self.output(position)
        return 0 if value is None else value.numel

    def nbytes(self, position: int) -> int:
        value = self.input(position)
        return 0 if value is None else value.nbytes

    def output_nbytes(self, position: int = 0) -> int:
        value = self.output(position)
        return 0 if value is None else value.nbytes

    def attribute(self, name: str, default: Attribute) -> Attribute:
        return self.op.attributes.get(name, default)

    def integer(self, name: str, default: int) -> int:
        value = self.attribute(name, default)
        return int(value) if isinstance(value, int | float) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that lists integers; ``()`` where it is left out."""
        value = self.attribute(name, ())
        return tuple(int(v) for v in value) if isinstance(value, tuple) else ()

    def content(self, position: int) -> tuple[float, ...] | None:
        """The elements of an input that is a constant of a few; None where it is left out or not known."""
        value = self.input(position)
        return None if value is None else value.content

    @property
    def input_bytes(self) -> int:
        """Bytes of every input and captured value, a value used twice counted once."""
        return sum([self.graph.values[v].nbytes for v in self.op.uses])

    @property
    def output_bytes(self) -> int:
        return sum([self.graph.values[v].nbytes for v in self.op.results])

    @property
    def elements_out(self) -> int:
        """Elements of all outputs."""
        return sum(self.graph.values[v].numel for v in self.op.results)
