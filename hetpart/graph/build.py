"""From typed protobuf nodes to the immutable ``Graph``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.estimates import AXES, REDUCTIONS, SLICED_AXES, bounding, estimated_nbytes, sliced_shape
from hetpart.graph.ir import Attribute, Graph, Op, Shape, Value, ValueKind, ValueRole
from hetpart.graph.listing import Kind, ListedNode, captured, listed_nodes
from hetpart.graph.provenance import provenance_of
from hetpart.graph.ragged import Bounds
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


@dataclass(frozen=True, slots=True)
class _Description:
    """What a type says of a value."""

    kind: ValueKind
    dtype: str
    shape: Shape | None
    nbytes: int | None
    """``None`` where a dimension is unknown."""

    @classmethod
    def of(cls, type_: onnx.TypeProto) -> _Description:
        kind, dtype, shape = kind_of(type_), dtype_of(type_), shape_of(type_)
        sizes = None if kind is not ValueKind.TENSOR or shape is None or None in shape else shape
        return cls(kind, dtype, shape, None if sizes is None else nbytes_of(dtype, [size or 0 for size in sizes]))


_NOTHING_KNOWN = _Description(ValueKind.TENSOR, "", None, None)


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
    outer: GraphBuilder | None = None
    """Of the graph around this body."""
    bounds: Bounds = field(default_factory=Bounds)
    _descriptions: dict[int, _Description] = field(default_factory=dict[int, _Description])
    """By the identity of a type, of those in ``types``."""
    _options: dict[Kind, Mapping[str, Attribute]] = field(default_factory=dict[Any, Any])
    """Attributes of nodes by their kind."""

    def value(
        self,
        name: str,
        role: ValueRole,
        *,
        producer: int | None = None,
        inputs: Iterable[Value] = (),
        shape: Shape | None = None,
    ) -> int:
        """Id of the value called ``name``, which is made now if it is new.

        Where its type tells no size it is of ``shape``, or, in a body, of the shape and size it has outside.
        """
        if name in self.ids:
            return self.ids[name]
        known = self._described(name)
        if shape is not None and known.kind is ValueKind.TENSOR and not any(known.shape or ()):
            known = replace(known, shape=shape)
        outside = self._outside(name) if producer is None and known.nbytes is None else None
        if outside is not None:
            known = replace(known, shape=outside.shape, nbytes=outside.nbytes)
        parts = self.parts.get(name) if known.kind is ValueKind.SEQUENCE else None
        size = self._nbytes(name, known, inputs) if parts is None else sum(parts)
        sources = tuple(sorted(self.origins.get(name, ()))) if role is ValueRole.DERIVED else ()
        content = self._content(name) if role in (ValueRole.WEIGHT, ValueRole.DERIVED) else None
        made = Value(
            len(self.values), name, known.kind, role, known.dtype, known.shape, producer, size, sources, parts, content
        )
        self.values.append(made)
        self.ids[name] = made.id
        return made.id

    def match(self, listed: ListedNode) -> None:
        """Note which derived weight the one that a node makes equals, where an op before does the same."""
        made = self.ids.get(listed.outputs[0]) if len(listed.outputs) == 1 and listed.inputs else None
        if made is None:
            return
        read = tuple([self._first(name) if name else None for name in listed.inputs])
        options = tuple(sorted([attribute.SerializeToString() for attribute in listed.node.attribute]))
        first = self.makers.setdefault((listed.domain, listed.op_type, read, options), made)
        if first != made:
            self.values[made] = replace(self.values[made], same_as=first)

    def _first(self, name: str) -> int:
        value = self.ids[name]
        first = self.values[value].same_as
        return value if first is None else first

    def _described(self, name: str) -> _Description:
        """What the type says. Values of nodes that are alike have one type, which is read once."""
        type_ = self.types.get(name)
        if type_ is None:
            return _NOTHING_KNOWN
        found = self._descriptions.get(id(type_))
        if found is None:
            found = self._descriptions[id(type_)] = _Description.of(type_)
        return found

    def _content(self, name: str) -> tuple[float, ...] | None:
        known = self.contents.get(name)
        return None if known is None or known.size > MOST_KEPT else tuple(known.ravel().tolist())

    def _nbytes(self, name: str, known: _Description, inputs: Iterable[Value]) -> int:
        """Bytes, estimated from the inputs where a dimension is unknown."""
        if known.nbytes is None:
            return estimated_nbytes(known.dtype, known.shape, list(inputs))
        if known.nbytes > MOST_BYTES:
            sizes = [size for size in known.shape or () if size is not None]
            raise InvalidModelError(
                f"value {name!r} of {self.name!r} has shape {shape_text(sizes)}, more than any machine holds",
                hint="bind smaller dimensions with --shape, or export the model again",
            )
        return known.nbytes

    def op(self, listed: ListedNode, outer_role: ValueRole) -> None:
        """Add a node; a value it reads that is not known yet comes from outside, as ``outer_role``."""
        position, node = len(self.ops), listed.node
        inputs = tuple([self.value(name, outer_role) if name else None for name in listed.inputs])
        held = bodies_of(node) if listed.holds else ()
        outer = tuple([self.value(name, outer_role) for name in captured(held)])
        given = [None if value is None else self.values[value] for value in inputs]
        axes = self._axes(listed)
        read = [
            *bounding(listed.op_type, given, axes, self._longest(listed, given, axes)),
            *(self.values[value] for value in outer),
        ]
        shape = sliced_shape(given, axes) if listed.op_type == "Slice" else None
        bodies = tuple([self._body(node, body) for body in held])
        limit = trip_limit(node, self.contents) if held else None
        if any(self._described(name).kind is ValueKind.SEQUENCE for name in listed.outputs):
            parts = made_parts(Maker(node, given, self.contents, bodies, limit))
            self.parts.update((n, p) for n, p in zip(listed.outputs, parts, strict=False) if p is not None)
        outputs = [
            self.value(name, ValueRole.ACTIVATION, producer=position, inputs=made or read, shape=shape)
            if name
            else None
            for name, made in zip(listed.outputs, _chosen(listed, bodies), strict=True)
        ]
        self._note(listed)
        domain, known = "" if listed.domain == "ai.onnx" else listed.domain, provenance_of(node)
        self.ops.append(
            Op(
                id=position,
                name=node.name,
                domain=domain,
                op_type=listed.op_type,
                version=self.opsets.get(domain, 1),
                inputs=inputs,
                outputs=tuple(outputs),
                captures=outer,
                attributes=self._attributes(listed),
                scope=known.scope,
                bodies=bodies,
                trip_limit=limit,
                origin=known.origin,
                source=known.source,
                pin=known.pin,
                pinned_by=known.pinned_by,
                every=known.every,
            )
        )

    def _axes(self, listed: ListedNode) -> tuple[int, ...] | None:
        """Along which a node slices or reduces, where its input for them is known."""
        position = SLICED_AXES if listed.op_type == "Slice" else AXES if listed.op_type in REDUCTIONS else None
        name = listed.inputs[position] if position is not None and position < len(listed.inputs) else ""
        known = self.contents.get(name)
        return None if known is None else tuple(int(axis) for axis in known.ravel())

    def _note(self, listed: ListedNode) -> None:
        first = self.values[self.ids[listed.inputs[0]]].shape if any(listed.inputs[:1]) else None
        self.bounds.note(listed.op_type, listed.inputs, listed.outputs, first, self.contents)

    def _longest(self, listed: ListedNode, given: Sequence[Value | None], axes: Sequence[int] | None) -> int | None:
        """Elements that a Slice takes along the first of its axes at most."""
        whole = given[0] if listed.op_type == "Slice" and given else None
        if whole is None or not whole.shape or not whole.is_static:
            return None
        return self.bounds.longest(listed.inputs, whole.shape[(axes or (0,))[0]] or 0)

    def _outside(self, name: str) -> Value | None:
        """The value in the graph around this body, or around that one."""
        around = self.outer
        while around is not None and name not in around.ids:
            around = around.outer
        return None if around is None else around.values[around.ids[name]]

    def _attributes(self, listed: ListedNode) -> Mapping[str, Attribute]:
        """Numbers and strings; those of nodes that are alike are read once."""
        found = self._options.get(listed.kind)
        if found is None:
            found = plain_attributes(listed.node.attribute)
            if listed.kind:
                self._options[listed.kind] = found
        return found

    def _body(self, node: onnx.NodeProto, body: onnx.GraphProto) -> Graph:
        states = states_of(node, body)
        parts = {state: self.parts[name] for state, name in states.items() if name in self.parts}
        return build_body(body, self, parts, self.bounds.within(node.op_type, (value.name for value in body.input)))

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


def plain_attributes(given: Iterable[onnx.AttributeProto]) -> dict[str, Attribute]:
    """Those that are numbers and strings, by name."""
    plain = (attribute for attribute in given if attribute.type in _PLAIN_ATTRIBUTES)
    return {attribute.name: _PLAIN_ATTRIBUTES[attribute.type](attribute) for attribute in plain}


def _chosen(listed: ListedNode, bodies: Sequence[Graph]) -> list[list[Value]]:
    """For every output of an If, what its branches make; nothing for those of other nodes."""
    if listed.op_type != "If":
        return [[] for _ in listed.outputs]
    return [
        [body.values[body.outputs[i]] for body in bodies if i < len(body.outputs)] for i in range(len(listed.outputs))
    ]


def build_body(body: onnx.GraphProto, outer: GraphBuilder, parts: Mapping[str, Parts], bounds: Bounds) -> Graph:
    """The Graph of an op's subgraph. Outer values it reads are its inputs, behind its own.

    ``parts`` are those of its inputs that are sequences; ``bounds`` is what is known of its turns.
    """
    types = dict(outer.types)
    types.update((tensor.name, tensor_type(tensor.data_type, tensor.dims)) for tensor in body.initializer)
    types.update((info.name, info.type) for info in (*body.input, *body.value_info, *body.output))
    contents = {**outer.contents, **constants_of(body)}
    builder = GraphBuilder(
        body.name, outer.opsets, types, {}, contents, parts={**outer.parts, **parts}, outer=outer, bounds=bounds
    )
    for value in body.input:
        builder.value(value.name, ValueRole.INPUT)
    for tensor in body.initializer:
        builder.value(tensor.name, ValueRole.WEIGHT)
    for listed in listed_nodes(body):
        builder.op(listed, ValueRole.INPUT)
    for value in body.output:
        builder.value(value.name, ValueRole.INPUT)
    inputs = [value.name for value in builder.values if value.role is ValueRole.INPUT]
    return builder.graph(inputs, [value.name for value in body.output], {})
