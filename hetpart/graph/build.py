"""From typed protobuf nodes to the immutable ``Graph``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.estimates import estimated_nbytes
from hetpart.graph.ir import Attribute, Graph, Op, Shape, Value, ValueKind, ValueRole
from hetpart.graph.legality import captured
from hetpart.graph.provenance import provenance_of
from hetpart.graph.sequences import Maker, Parts, made_parts, states_of
from hetpart.graph.tensor_rules import MOST_BYTES, shape_text
from hetpart.graph.trips import constants_of, trip_limit
from hetpart.graph.types import dtype_of, kind_of, nbytes_of, shape_of, tensor_type
from hetpart.graph.walk import bodies_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

MOST_KEPT = 16
"""Elements of constants that are kept: what ONNX Runtime's optimiser asks for are factors, axes and pads."""
_PLAIN_ATTRIBUTES: dict[int, Callable[[onnx.AttributeProto], Attribute]] = {
    onnx.AttributeProto.INT: lambda a: a.i,
    onnx.AttributeProto.FLOAT: lambda a: a.f,
    onnx.AttributeProto.STRING: lambda a: a.s.decode(errors="replace"),
    onnx.AttributeProto.INTS: lambda a: tuple(a.ints),
    onnx.AttributeProto.FLOATS: lambda a: tuple(a.floats),
    onnx.AttributeProto.STRINGS: lambda a: tuple(s.decode(errors="replace") for s in a.strings),
}


@dataclass(slots=True)
class GraphBuilder:
    """Gathers values and ops by name, ids in the order they come."""

    name: str
    opsets: Mapping[str, int]
    types: Mapping[str, onnx.TypeProto]
    origins: Mapping[str, frozenset[str]]
    contents: Mapping[str, NDArray[Any]]
    """Constants whose elements are known."""
    values: list[Value] = field(default_factory=list[Value])
    ids: dict[str, int] = field(default_factory=dict[str, int])
    ops: list[Op] = field(default_factory=list[Op])
    parts: dict[str, Parts] = field(default_factory=dict[str, Parts])
    """Of the sequences, bytes of each tensor in them, as far as they are known."""
    makers: dict[Hashable, int] = field(default_factory=dict[Any, Any])
    """The derived weights that ops make, by what those do."""
    _descriptions: dict[int, tuple[ValueKind, str, Shape | None]] = field(default_factory=dict[Any, Any])
    """By the identity of a type, of those in ``types``."""

    def value(self, name: str, role: ValueRole, *, producer: int | None = None, inputs: Iterable[Value] = ()) -> int:
        """Id of the value called ``name``, which is made now if it is new."""
        if name in self.ids:
            return self.ids[name]
        kind, dtype, shape = self._described(name)
        parts = self.parts.get(name) if kind is ValueKind.SEQUENCE else None
        size = self._nbytes(name, kind, dtype, shape, inputs) if parts is None else sum(parts)
        sources = tuple(sorted(self.origins.get(name, ()))) if role is ValueRole.DERIVED else ()
        content = self._content(name) if role in (ValueRole.WEIGHT, ValueRole.DERIVED) else None
        made = Value(len(self.values), name, kind, role, dtype, shape, producer, size, sources, parts, content)
        self.values.append(made)
        self.ids[name] = made.id
        return made.id

    def match(self, node: onnx.NodeProto) -> None:
        """Note which derived weight the one that ``node`` makes equals, where an op before does the same."""
        made = self.ids.get(node.output[0]) if len(node.output) == 1 and node.input else None
        if made is None:
            return
        read = tuple([self._first(name) if name else None for name in node.input])
        options = tuple(sorted([attribute.SerializeToString() for attribute in node.attribute]))
        first = self.makers.setdefault((node.domain, node.op_type, read, options), made)
        if first != made:
            self.values[made] = replace(self.values[made], same_as=first)

    def _first(self, name: str) -> int:
        value = self.ids[name]
        first = self.values[value].same_as
        return value if first is None else first

    def _described(self, name: str) -> tuple[ValueKind, str, Shape | None]:
        """Kind, element type and shape. Values of nodes that are alike have one type, which is read once."""
        type_ = self.types.get(name)
        if type_ is None:
            return ValueKind.TENSOR, "", None
        found = self._descriptions.get(id(type_))
        if found is None:
            found = self._descriptions[id(type_)] = kind_of(type_), dtype_of(type_), shape_of(type_)
        return found

    def _content(self, name: str) -> tuple[float, ...] | None:
        known = self.contents.get(name)
        return None if known is None or known.size > MOST_KEPT else tuple(known.ravel().tolist())

    def _nbytes(self, name: str, kind: ValueKind, dtype: str, shape: Shape | None, inputs: Iterable[Value]) -> int:
        """Bytes, estimated from the inputs where a dimension is unknown."""
        if kind is ValueKind.TENSOR and shape is not None and None not in shape:
            sizes = [size for size in shape if size is not None]
            nbytes = nbytes_of(dtype, sizes)
            if nbytes > MOST_BYTES:
                raise InvalidModelError(
                    f"value {name!r} of {self.name!r} has shape {shape_text(sizes)}, more than any machine holds",
                    hint="bind smaller dimensions with --shape, or export the model again",
                )
            return nbytes
        return estimated_nbytes(dtype, shape, list(inputs))

    def op(self, node: onnx.NodeProto, outer_role: ValueRole) -> None:
        """Add ``node``; a value it reads that is not known yet comes from outside, as ``outer_role``."""
        position = len(self.ops)
        inputs = tuple([self.value(name, outer_role) if name else None for name in node.input])
        held = bodies_of(node)
        outer = tuple([self.value(name, outer_role) for name in captured(held)])
        read = [self.values[value] for value in (*inputs, *outer) if value is not None]
        if node.op_type == "SequenceAt":
            read = [_largest(value) for value in read]
        bodies, limit = tuple([self._body(node, body) for body in held]), trip_limit(node, self.contents)
        made = list(node.output)
        if any(self._described(name)[0] is ValueKind.SEQUENCE for name in made):
            given = [None if value is None else self.values[value] for value in inputs]
            known = zip(made, made_parts(Maker(node, given, self.contents, bodies, limit)), strict=False)
            self.parts.update((name, parts) for name, parts in known if parts is not None)
        outputs = [
            self.value(name, ValueRole.ACTIVATION, producer=position, inputs=read) if name else None for name in made
        ]
        domain, known = "" if node.domain == "ai.onnx" else node.domain, provenance_of(node)
        self.ops.append(
            Op(
                id=position,
                name=node.name,
                domain=domain,
                op_type=node.op_type,
                version=self.opsets.get(domain, 1),
                inputs=inputs,
                outputs=tuple(outputs),
                captures=outer,
                attributes=_attributes(node),
                scope=known.scope,
                bodies=bodies,
                trip_limit=limit,
                origin=known.origin,
                source=known.source,
                pin=known.pin,
            )
        )

    def _body(self, node: onnx.NodeProto, body: onnx.GraphProto) -> Graph:
        states = states_of(node, body)
        return build_body(body, self, {state: self.parts[name] for state, name in states.items() if name in self.parts})

    def graph(self, inputs: Sequence[str], outputs: Sequence[str], index_ranges: Mapping[str, int]) -> Graph:
        return Graph(
            name=self.name,
            ops=tuple(self.ops),
            values=tuple(self.values),
            inputs=tuple(self.ids[name] for name in inputs),
            outputs=tuple(self.ids[name] for name in outputs if name in self.ids),
            index_ranges=index_ranges,
            opset=self.opsets.get("", 1),
            dimensions={},
        )


def build_body(body: onnx.GraphProto, outer: GraphBuilder, parts: Mapping[str, Parts]) -> Graph:
    """The Graph of an op's subgraph. Outer values it reads are its inputs, behind its own.

    ``parts`` are those of its inputs that are sequences.
    """
    types = dict(outer.types)
    types.update((tensor.name, tensor_type(tensor.data_type, tensor.dims)) for tensor in body.initializer)
    types.update((info.name, info.type) for info in (*body.input, *body.value_info, *body.output))
    contents = {**outer.contents, **constants_of(body)}
    builder = GraphBuilder(body.name, outer.opsets, types, {}, contents, parts={**outer.parts, **parts})
    for value in body.input:
        builder.value(value.name, ValueRole.INPUT)
    for tensor in body.initializer:
        builder.value(tensor.name, ValueRole.WEIGHT)
    for node in body.node:
        builder.op(node, ValueRole.INPUT)
    for value in body.output:
        builder.value(value.name, ValueRole.INPUT)
    inputs = [value.name for value in builder.values if value.role is ValueRole.INPUT]
    return builder.graph(inputs, [value.name for value in body.output], {})


def _largest(value: Value) -> Value:
    """The largest tensor of a sequence; what is none as it is."""
    return replace(value, nbytes=max(value.parts)) if value.parts else value


def _attributes(node: onnx.NodeProto) -> dict[str, Attribute]:
    return {a.name: _PLAIN_ATTRIBUTES[a.type](a) for a in node.attribute if a.type in _PLAIN_ATTRIBUTES}
