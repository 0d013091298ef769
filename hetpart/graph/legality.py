# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whether a model's graph is one: every value made once, before it is used, by operators that exist."""

from __future__ import annotations

import graphlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.contrib_types import RUNTIMES_OWN
from hetpart.graph.listing import STANDARD_DOMAINS, Kind, ListedNode, Listing, listed_nodes
from hetpart.graph.tensor_rules import TENSOR_RULES, Rules, suspects
from hetpart.graph.walk import all_graphs, fresh_name, replace_items

if TYPE_CHECKING:
    from hetpart.graph.load import LoadedModel

_Subject = TypeVar("_Subject")
_MOST_VERSION = 2**31
_MOST_AXES = 1000
_ANY = (-(2**63), 2**63 - 1)
_LIMITS: dict[str, tuple[int, int]] = {"axis": (-_MOST_AXES, _MOST_AXES), "batch_dims": (0, _MOST_AXES)}
_TERM = r"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
_SHOWN = 5


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
    _require(loaded, TENSOR_RULES, suspects(tensors))


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
    inputs = [value.name for value in graph.input]
    given = {*inputs, *listing.weights}
    made = Counter(name for listed in listing.nodes for name in listed.outputs if name)
    yield from (repr(name) for name, times in made.items() if times > 1 or name in given)
    for label, names in (("input", inputs), ("initializer", listing.weights)):
        if len(set(names)) < len(names):
            yield from (f"{label} {name!r}" for name, times in Counter(names).items() if times > 1)


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
        is_runtimes = not domain and op_type in RUNTIMES_OWN
        if domain in STANDARD_DOMAINS and not is_runtimes and not onnx.defs.has(op_type, version, domain):
            unknown[own, op_type] = version
    for listed in listing.nodes if unknown else ():
        version = unknown.get((listed.domain, listed.op_type))
        if version is not None:
            yield f"{listed.op_type!r} ({listed.node.name!r}) in opset {version}"


def _of_operators(listing: Listing, find: Callable[[onnx.NodeProto, str], Iterator[str]]) -> Iterator[str]:
    """What ``find`` finds in nodes of standard operators. Where it finds nothing, those alike are not looked at."""
    sound: set[tuple[Kind, int]] = set()
    for listed in listing.nodes:
        likeness = listed.kind, len(listed.outputs)
        if listed.domain not in STANDARD_DOMAINS or likeness in sound:
            continue
        found = list(find(listed.node, listed.op_type))
        if not found and listed.kind:
            sound.add(likeness)
        yield from found
    for node in listing.inner:
        if node.domain in STANDARD_DOMAINS:
            yield from find(node, node.op_type)


def _wild_attributes(listing: Listing) -> Iterator[str]:
    # onnx's own inference takes these for indices without a look: it crashes
    return _of_operators(listing, _wild_in)


def _wild_in(node: onnx.NodeProto, op_type: str) -> Iterator[str]:
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
    return _of_operators(listing, _broken_in)


def _broken_in(node: onnx.NodeProto, op_type: str) -> Iterator[str]:
    for attribute in node.attribute if op_type == "Einsum" else ():
        if not _EQUATION.fullmatch(attribute.s.decode(errors="replace")):
            yield f"{attribute.s!r} of {node.name or op_type!r}"


def _missing_values(listing: Listing) -> Iterator[str]:
    graph = listing.model.graph
    known = {*(value.name for value in graph.input), *listing.weights}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    known.update(name for listed in listing.nodes for name in listed.outputs)
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


def sorted_nodes(loaded: LoadedModel, nodes: Sequence[ListedNode]) -> Sequence[ListedNode]:
    """``nodes``, those of ``loaded``, put in a topological order there, the file's own where it is one.

    Raises:
        InvalidModelError: the nodes form a cycle.
    """
    graph = loaded.proto.graph
    maker = {name: index for index, listed in enumerate(nodes) for name in listed.outputs if name}
    if all(maker.get(name, -1) < index for index, listed in enumerate(nodes) for name in listed.uses):
        return nodes
    needs = {index: {maker[name] for name in listed.uses if name in maker} for index, listed in enumerate(nodes)}
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        names = " → ".join(repr(graph.node[index].name or graph.node[index].op_type) for index in error.args[1])
        raise InvalidModelError(
            f"{loaded.path or loaded.name}: nodes wait for each other in a cycle: {names}",
            hint="a graph must have an order in which every value is made before it is used",
        ) from error
    replace_items(graph.node, [nodes[index].node for index in order])
    return listed_nodes(graph)


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
