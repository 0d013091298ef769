"""A tiny builder of graphs by hand."""

from __future__ import annotations

from math import prod
from typing import Any

from hetpart.graph.ir import DTYPE_BITS, Attribute, Graph, Op, Shape, Value, ValueKind, ValueRole


class Builder:
    """Values and ops in the order they are called for."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.inputs: list[int] = []

    def value(
        self,
        shape: Shape | None,
        dtype: str = "float32",
        *,
        role: ValueRole = ValueRole.INPUT,
        kind: ValueKind = ValueKind.TENSOR,
        producer: int | None = None,
        nbytes: int | None = None,
    ) -> int:
        if nbytes is None:
            known = [7 if d is None else d for d in (shape or ())]
            nbytes = 0 if kind is not ValueKind.TENSOR else prod(known) * DTYPE_BITS.get(dtype, 32) // 8
        self.values.append(Value(len(self.values), f"v{len(self.values)}", kind, role, dtype, shape, producer, nbytes))
        if role is ValueRole.INPUT:
            self.inputs.append(len(self.values) - 1)
        return len(self.values) - 1

    def weight(self, shape: Shape, dtype: str = "float32") -> int:
        return self.value(shape, dtype, role=ValueRole.WEIGHT)

    def op(
        self,
        op_type: str,
        inputs: list[int | None],
        shape: Shape | list[Shape | None] | None = (),
        dtype: str = "float32",
        *,
        domain: str = "",
        version: int = 20,
        bodies: tuple[Graph, ...] = (),
        captures: tuple[int, ...] = (),
        **attributes: Attribute,
    ) -> int:
        """Add an op; its first output's id comes back. A list of shapes makes as many outputs."""
        number = len(self.ops)
        shapes = shape if isinstance(shape, list) else [shape]
        outputs = tuple(self.value(s, dtype, role=ValueRole.ACTIVATION, producer=number) for s in shapes)
        self.ops.append(
            Op(number, f"n{number}", domain, op_type, version, tuple(inputs), outputs, captures, attributes, "", bodies)
        )
        return outputs[0] if outputs else -1

    def graph(self, *outputs: int) -> Graph:
        ends = outputs or (self.ops[-1].results[:1] if self.ops else ())
        return Graph("g", tuple(self.ops), tuple(self.values), tuple(self.inputs), tuple(ends), {}, 20, {})


def single(
    op_type: str,
    inputs: list[tuple[Shape | None, str] | None],
    shape: Shape | list[Shape | None] | None,
    **options: Any,
) -> Graph:
    """A graph of one op whose inputs have the given shapes and dtypes."""
    b = Builder()
    ids = [None if i is None else b.value(*i) for i in inputs]
    b.op(op_type, ids, shape, **options)
    return b.graph()
