# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Put the body of an operator in its place where ONNX Runtime does: then what is placed and priced is what it runs.

A standard operator may be a function of others, and where no provider has a kernel for it, ONNX Runtime inlines that
function before it optimises the graph. Each node is expanded by itself, from the types of its inputs alone: ``onnx``'s
inliner, given all of a model, would infer and copy all of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper, inliner
from onnx.checker import ValidationError

from hetpart.graph.ir import Graph, Op, ValueKind
from hetpart.graph.listing import kind_of_node
from hetpart.graph.provenance import ORIGIN
from hetpart.graph.types import element_type
from hetpart.graph.walk import all_graphs, fresh_name, replace_items, subgraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

_SHOWN = 5
_ERRORS = (RuntimeError, ValueError, TypeError, ValidationError)
_Template = tuple[onnx.NodeProto, ...]


@dataclass(slots=True)
class Expander:
    """Expands the ops of which ``expands`` says that ONNX Runtime runs their bodies."""

    model: onnx.ModelProto
    expands: Callable[[Op, Graph], bool]
    expanded: Counter[str] = field(default_factory=Counter[str])
    """How many ops of each type were."""
    refused: dict[str, None] = field(default_factory=dict[str, None])
    """Names of ops whose body ``onnx`` does not tell; they stay as they are."""
    settled: int = 0
    """How many that compute constants were."""
    _values: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of the graph's values by name."""
    _names: _Names | None = None
    """Built where the first is, for most models hold none."""
    _templates: dict[Hashable, _Template | None] = field(default_factory=dict[Any, Any])

    @property
    def notes(self) -> Iterator[str]:
        """What the user should know of it."""
        if self.expanded:
            listed = ", ".join(f"{count} {name}" for name, count in sorted(self.expanded.items()))
            yield f"ONNX Runtime has no kernel for these and runs the ops they are made of, as is planned: {listed}"
        if self.refused:
            listed = ", ".join(sorted(self.refused)[:_SHOWN]) + (", …" if len(self.refused) > _SHOWN else "")
            yield f"ONNX Runtime runs the ops these are made of, which onnx does not tell: {listed}"

    def expand(self, graph: Graph) -> bool:
        """Expand what is to be expanded in ``model``, whose graph is ``graph``; returns whether anything was."""
        before = self.expanded.total() + self.settled
        self._names, self._values = None, {}
        numbers = {op.name: op for op in graph.ops}
        nodes = self.model.graph.node
        ops = [numbers.get(node.name) for node in nodes]
        made = [self._nodes(node, op, graph) for node, op in zip(nodes, ops, strict=True)]
        if self.expanded.total() + self.settled == before:
            return False
        replace_items(nodes, [node for group in made for node in group])
        return True

    def _nodes(self, node: onnx.NodeProto, op: Op | None, graph: Graph) -> Sequence[onnx.NodeProto]:
        """``node``, or what stands in its place."""
        if op is None:
            return self._constant(node, graph)
        if op.bodies:
            self._inside(node, op)
            return [node]
        if node.name in self.refused or not self.expands(op, graph):
            return [node]
        template = self._template(node, op, graph)
        if template is None:
            return [node]
        self.expanded[node.op_type] += 1
        self._names = self._names or _Names.of(self.model)
        return list(_instances(node, template, self._names))

    def _constant(self, node: onnx.NodeProto, graph: Graph) -> Sequence[onnx.NodeProto]:
        """The same for one that computes a constant, which ONNX Runtime does ahead of runs where it has a kernel."""
        self._values = self._values or {value.name: value.id for value in graph.values}
        known = [self._values.get(name) for name in (*node.input, *node.output)]
        if not node.input or None in known:
            return [node]
        read = tuple(known[: len(node.input)])
        version = next((each.version for each in self.model.opset_import if each.domain == node.domain), 1)
        op = Op(-1, node.name, node.domain, node.op_type, version, read, tuple(known[len(read) :]), (), {}, "")
        template = self._template(node, op, graph) if self.expands(op, graph) else None
        if template is None:
            return [node]
        self.settled += 1
        self._names = self._names or _Names.of(self.model)
        return list(_instances(node, template, self._names))

    def _inside(self, node: onnx.NodeProto, op: Op) -> None:
        """Expand what is to be in the subgraphs of ``node``, which are the bodies of ``op`` in their order."""
        inner = (body for attribute in node.attribute for body in subgraphs(attribute))
        for proto, body in zip(inner, op.bodies, strict=True):
            pairs = zip(proto.node, body.ops, strict=True)
            made = [self._nodes(each, known, body) for each, known in pairs]
            if any(len(group) != 1 or group[0] is not each for group, each in zip(made, proto.node, strict=True)):
                replace_items(proto.node, [each for group in made for each in group])

    def _template(self, node: onnx.NodeProto, op: Op, graph: Graph) -> _Template | None:
        types = [_type_of(value, graph) for value in op.inputs]
        repeated = tuple([_given(node, position) for position in range(len(node.input))])
        given = tuple([kind.SerializeToString(deterministic=True) for kind in types])
        key = (kind_of_node(node), given, repeated, tuple(map(bool, node.output)))
        if key not in self._templates:
            try:
                self._templates[key] = _body(node, types, self.model)
            except _ERRORS:
                self._templates[key] = None
        if self._templates[key] is None:
            self.refused[node.name] = None
        return self._templates[key]


@dataclass(frozen=True, slots=True)
class _Names:
    """Names that are taken in a model."""

    nodes: set[str]
    values: set[str]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> _Names:
        names = cls(set(), set())
        for graph in all_graphs(model.graph):
            names.values.update(value.name for value in (*graph.input, *graph.initializer))
            names.values.update(name for node in graph.node for name in node.output)
            names.nodes.update(node.name for node in graph.node)
        return names


def _type_of(value: int | None, graph: Graph) -> onnx.TypeProto:
    """Of an input; one that is left out needs a type, too, for the inliner to look at."""
    if value is None:
        return onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor())
    known = graph.values[value]
    if known.kind is not ValueKind.TENSOR or not known.dtype:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(element_type(known.dtype), known.shape)


def _body(node: onnx.NodeProto, types: Sequence[onnx.TypeProto], model: onnx.ModelProto) -> _Template | None:
    """The nodes that compute ``node``, in names of their own; ``None`` where its operator is no function of others."""
    alone = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    alone.attribute.extend(_defaults(node, model))
    alone.input.extend(_given(node, position) for position in range(len(node.input)))
    alone.output.extend(_made(position) if name else "" for position, name in enumerate(node.output))
    graph = onnx.GraphProto(node=[alone], name="expand")
    known = dict(zip(alone.input, types, strict=True))
    graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in known.items())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in alone.output if name)
    whole = onnx.ModelProto(ir_version=model.ir_version, graph=graph, opset_import=model.opset_import)
    found = inliner.inline_selected_functions(whole, [(node.domain, node.op_type)], inline_schema_functions=True)
    nodes = tuple(found.graph.node)
    return None if [each.op_type for each in nodes] == [node.op_type] else nodes


def _defaults(node: onnx.NodeProto, model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    """Attributes that ``node`` leaves out: the inliner forgets that they have a default."""
    standard = ("", "ai.onnx")
    domains = standard if node.domain in standard else (node.domain,)
    version = next(entry.version for entry in model.opset_import if entry.domain in domains)
    schema = onnx.defs.get_schema(node.op_type, version, "" if node.domain in standard else node.domain)
    left_out = set(schema.attributes) - {attribute.name for attribute in node.attribute}
    defaults = (schema.attributes[name].default_value for name in sorted(left_out))
    yield from (default for default in defaults if default.type)


def _given(node: onnx.NodeProto, position: int) -> str:
    """The template's name of an input: the same for one that stands there twice."""
    name = node.input[position]
    return f"given {list(node.input).index(name)}" if name else ""


def _made(position: int) -> str:
    return f"made {position}"


def _instances(node: onnx.NodeProto, template: _Template, names: _Names) -> Iterator[onnx.NodeProto]:
    """``template`` under names that begin with those of ``node``, whose scope and origin it has."""
    renamed = {"": ""}
    renamed.update((_given(node, position), name) for position, name in enumerate(node.input))
    renamed.update((_made(position), name) for position, name in enumerate(node.output) if name)
    stem = next(filter(None, node.output), node.name)

    def name_of(inner: str) -> str:
        if inner not in renamed:
            renamed[inner] = fresh_name(f"{stem}.{inner.rpartition('__')[0] or inner}", names.values)
        return renamed[inner]

    for inner in template:
        made = onnx.NodeProto.FromString(inner.SerializeToString())
        _rename(made, name_of)
        made.name = fresh_name(f"{node.name or node.op_type}.{inner.op_type}", names.nodes)
        made.metadata_props.extend(node.metadata_props)
        if all(entry.key != ORIGIN for entry in node.metadata_props):
            made.metadata_props.add(key=ORIGIN, value=f"{node.op_type} {node.name}")
        yield made


def _rename(node: onnx.NodeProto, name_of: Callable[[str], str]) -> None:
    """Give every value that ``node`` and its subgraphs speak of its new name."""
    node.input[:] = [name_of(name) for name in node.input]
    node.output[:] = [name_of(name) for name in node.output]
    for attribute in node.attribute:
        for body in subgraphs(attribute):
            for value in (*body.input, *body.output, *body.initializer, *body.value_info):
                value.name = name_of(value.name)
            for inner in body.node:
                _rename(inner, name_of)
