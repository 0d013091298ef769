# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whether a model's graph is one: every value made once, before it is used, by operators that exist."""

from __future__ import annotations

import graphlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.tensor_rules import TENSOR_RULES, Rules
from hetpart.graph.walk import all_graphs, all_nodes, bodies_of, fresh_name

if TYPE_CHECKING:
    from hetpart.graph.load import LoadedModel

STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_Subject = TypeVar("_Subject")
_MOST_VERSION = 2**31
_MOST_AXES = 1000
_ANY = (-(2**63), 2**63 - 1)
_LIMITS: dict[str, tuple[int, int]] = {"axis": (-_MOST_AXES, _MOST_AXES), "batch_dims": (0, _MOST_AXES)}
_TERM = r"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
_SHOWN = 5


@dataclass(slots=True, eq=False)
class ListedNode:
    """A node and the names in it, read once for all rules: each look into a message takes longer than a rule."""

    node: onnx.NodeProto
    op_type: str
    domain: str
    uses: tuple[str, ...]
    """As ``uses`` tells."""
    makes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A model and its nodes, which nobody changes meanwhile."""

    model: onnx.ModelProto
    nodes: Sequence[ListedNode]
    inner: Sequence[onnx.NodeProto]
    """Those inside other nodes."""

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Listing:
        nodes: list[ListedNode] = []
        inner: list[onnx.NodeProto] = []
        for node in model.graph.node:
            bodies = bodies_of(node)
            read = _used(node, bodies)
            nodes.append(ListedNode(node, node.op_type, node.domain, read, tuple(node.output)))
            inner += (each for body in bodies for each in all_nodes(body.node))
        return cls(model, nodes, inner)

    def standard(self) -> Iterator[tuple[onnx.NodeProto, str]]:
        """Every node of a standard operator, and the operator, those inside others last."""
        yield from ((listed.node, listed.op_type) for listed in self.nodes if listed.domain in STANDARD_DOMAINS)
        yield from ((node, node.op_type) for node in self.inner if node.domain in STANDARD_DOMAINS)


def require_legal(loaded: LoadedModel, listing: Listing) -> None:
    """Raise for the first rule that ``loaded`` breaks, naming the values or nodes that break it.

    Raises:
        InvalidModelError: the graph is not legal.
    """
    _require(loaded, RULES, listing)


def require_readable(loaded: LoadedModel, tensors: Sequence[onnx.TensorProto]) -> None:
    """The same for the rules that must hold before anything can be asked of the model, and of its ``tensors``.

    Raises:
        InvalidModelError: names are no text, versions no versions, or tensors not what they say.
    """
    _require(loaded, FIRST_RULES, loaded.proto)
    _require(loaded, TENSOR_RULES, tensors)


def _require(loaded: LoadedModel, rules: Rules[_Subject], subject: _Subject) -> None:
    for rule, find in rules:
        found = list(find(subject))
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise InvalidModelError(
                f"{loaded.path or loaded.name}: {rule}: {', '.join(found[:_SHOWN])}{more}",
                hint="the exporter or a later edit broke the graph; `onnx.checker.check_model` shows the same",
            )


def _damaged_names(model: onnx.ModelProto) -> Iterator[str]:
    # protobuf hands text that is not UTF-8 out as bytes
    for graph in (*all_graphs(model.graph), *model.functions):
        yield from (repr(name) for name in _graph_names(graph) if not isinstance(name, str))
        for node in graph.node:
            if not _is_text(node):
                yield from (repr(name) for name in _node_names(node) if not isinstance(name, str))


def _graph_names(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[object]:
    yield graph.name
    if isinstance(graph, onnx.FunctionProto):
        yield from (graph.domain, graph.overload, *graph.input, *graph.output)
        return
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)


def _is_text(node: onnx.NodeProto) -> bool:
    """Whether ``_node_names`` are all text: only text can be joined to text."""
    try:
        "".join((node.name, node.op_type, node.domain, node.overload, *node.input, *node.output))
        for attribute in node.attribute:
            "".join((attribute.name, attribute.ref_attr_name))
    except TypeError:
        return False
    return True


def _node_names(node: onnx.NodeProto) -> Iterator[object]:
    yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)


def _impossible_versions(model: onnx.ModelProto) -> Iterator[str]:
    imports = (*model.opset_import, *(entry for function in model.functions for entry in function.opset_import))
    opsets: list[tuple[object, int]] = [(entry.domain, entry.version) for entry in imports]
    for domain, version in opsets:
        if not isinstance(domain, str) or not 0 < version < _MOST_VERSION:
            yield f"{domain or 'ai.onnx'!r} version {version}"


def _repeated_values(listing: Listing) -> Iterator[str]:
    graph = listing.model.graph
    inputs = {value.name for value in graph.input}
    made = Counter(name for listed in listing.nodes for name in listed.makes if name)
    made.update(inputs | {tensor.name for tensor in graph.initializer})
    yield from (repr(name) for name, times in made.items() if times > 1)
    for label, names in (("input", graph.input), ("initializer", graph.initializer)):
        counts = Counter(item.name for item in names)
        yield from (f"{label} {name!r}" for name, times in counts.items() if times > 1)


def _unknown_domains(listing: Listing) -> Iterator[str]:
    imported = {entry.domain or "" for entry in listing.model.opset_import} | {"ai.onnx"}
    for listed in listing.nodes:
        if listed.domain not in imported:
            yield f"{listed.op_type} ({listed.node.name!r}) is of domain {listed.domain!r}"


def _unknown_operators(listing: Listing) -> Iterator[str]:
    versions = {entry.domain: entry.version for entry in listing.model.opset_import}
    kinds = {(listed.domain, listed.op_type) for listed in listing.nodes}
    unknown: dict[tuple[str, str], int] = {}
    for own, op_type in kinds:
        domain = "" if own == "ai.onnx" else own
        version = versions.get(domain, versions.get("ai.onnx", 1) if domain == "" else 1)
        if domain in STANDARD_DOMAINS and not onnx.defs.has(op_type, version, domain):
            unknown[own, op_type] = version
    for listed in listing.nodes if unknown else ():
        version = unknown.get((listed.domain, listed.op_type))
        if version is not None:
            yield f"{listed.op_type!r} ({listed.node.name!r}) in opset {version}"


def _wild_attributes(listing: Listing) -> Iterator[str]:
    # onnx's own inference takes these for indices without a look: it crashes
    for node, op_type in listing.standard():
        for attribute in node.attribute:
            number = attribute.i
            if not number and op_type != "Split":
                continue  # nothing forbids zero elsewhere, and it is what all but integers have
            of_split = op_type == "Split" and attribute.name == "num_outputs"
            low, high = (len(node.output),) * 2 if of_split else _LIMITS.get(attribute.name, _ANY)
            if not low <= number <= high:
                yield f"{attribute.name} = {number} of {node.name or op_type!r}"


def _broken_equations(listing: Listing) -> Iterator[str]:
    # onnx's own inference never comes back from some of them, such as "a-b"
    for node, op_type in listing.standard():
        for attribute in node.attribute if op_type == "Einsum" else ():
            if not _EQUATION.fullmatch(attribute.s.decode(errors="replace")):
                yield f"{attribute.s!r} of {node.name or op_type!r}"


def _missing_values(listing: Listing) -> Iterator[str]:
    graph = listing.model.graph
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    known.update(name for listed in listing.nodes for name in listed.makes)
    for listed in listing.nodes:
        if not known.issuperset(listed.uses):
            label = listed.node.name or listed.op_type
            yield from (f"{name!r} of {label!r}" for name in listed.uses if name not in known)
    yield from (f"output {value.name!r}" for value in graph.output if value.name not in known)


FIRST_RULES: Rules[onnx.ModelProto] = (
    ("names are not UTF-8 text", _damaged_names),
    ("operator sets have impossible versions", _impossible_versions),
)
RULES: Rules[Listing] = (
    ("values are made more than once", _repeated_values),
    ("values are used but never made", _missing_values),
    ("operator sets are used but not imported", _unknown_domains),
    ("operators do not exist", _unknown_operators),
    ("attributes are out of range", _wild_attributes),
    ("equations cannot be read", _broken_equations),
)


def uses(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names the node reads, outer values of its subgraphs included, each once."""
    return _used(node, bodies_of(node))


def _used(node: onnx.NodeProto, bodies: Sequence[onnx.GraphProto]) -> tuple[str, ...]:
    read = [name for name in node.input if name]
    if not bodies and len(read) <= 1:
        return tuple(read)
    return tuple(dict.fromkeys((*read, *captured(bodies))))


def captures(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names of outer values that the node's subgraphs read, each once."""
    return captured(bodies_of(node))


def captured(bodies: Iterable[onnx.GraphProto]) -> tuple[str, ...]:
    """The same of the subgraphs themselves."""
    return tuple(dict.fromkeys(name for body in bodies for name in _free_names(body))) if bodies else ()


def _free_names(body: onnx.GraphProto) -> Iterator[str]:
    local = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    local |= {tensor.values.name for tensor in body.sparse_initializer}
    for node in body.node:
        yield from (name for name in uses(node) if name not in local)
        local.update(node.output)
    yield from (value.name for value in body.output if value.name not in local)


def sort_nodes(loaded: LoadedModel, nodes: Sequence[ListedNode]) -> None:
    """Put the ``nodes`` of ``loaded`` in a topological order, the file's own where it is one.

    Raises:
        InvalidModelError: the nodes form a cycle.
    """
    graph = loaded.proto.graph
    maker = {name: index for index, listed in enumerate(nodes) for name in listed.makes if name}
    if all(maker.get(name, -1) < index for index, listed in enumerate(nodes) for name in listed.uses):
        return
    needs = {index: {maker[name] for name in listed.uses if name in maker} for index, listed in enumerate(nodes)}
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        names = " → ".join(repr(graph.node[index].name or graph.node[index].op_type) for index in error.args[1])
        raise InvalidModelError(
            f"{loaded.path or loaded.name}: nodes wait for each other in a cycle: {names}",
            hint="a graph must have an order in which every value is made before it is used",
        ) from error
    copies = [onnx.NodeProto.FromString(graph.node[index].SerializeToString()) for index in order]
    del graph.node[:]
    graph.node.extend(copies)


def name_nodes(model: onnx.ModelProto) -> int:
    """Give every node a name of its own; returns how many were named or renamed."""
    taken = {node.name for node in model.graph.node if node.name}
    seen: set[str] = set()
    renamed = 0
    for position, node in enumerate(model.graph.node):
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        node.name = fresh_name(f"{node.name or node.op_type}_{position}", taken)
        seen.add(node.name)
        renamed += 1
    return renamed
