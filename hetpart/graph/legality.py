# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whether a model's graph is one: every value made once, before it is used, by operators that exist."""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.load import subgraphs

if TYPE_CHECKING:
    from hetpart.graph.load import LoadedModel

STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_SHOWN = 5


def require_legal(loaded: LoadedModel) -> None:
    """Raise for the first rule that ``loaded`` breaks, naming the values or nodes that break it.

    Raises:
        InvalidModelError: the graph is not legal.
    """
    where = str(loaded.path or loaded.name)
    for rule, find in RULES:
        found = list(find(loaded.proto))
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise InvalidModelError(
                f"{where}: {rule}: {', '.join(found[:_SHOWN])}{more}",
                hint="the exporter or a later edit broke the graph; `onnx.checker.check_model` shows the same",
            )


def _repeated_values(model: onnx.ModelProto) -> Iterator[str]:
    graph = model.graph
    inputs = {value.name for value in graph.input}
    made = Counter(name for node in graph.node for name in node.output if name)
    made.update(inputs | {tensor.name for tensor in graph.initializer})
    yield from (repr(name) for name, times in made.items() if times > 1)
    for label, names in (("input", graph.input), ("initializer", graph.initializer)):
        counts = Counter(item.name for item in names)
        yield from (f"{label} {name!r}" for name, times in counts.items() if times > 1)


def _unknown_domains(model: onnx.ModelProto) -> Iterator[str]:
    imported = {entry.domain or "" for entry in model.opset_import} | {"ai.onnx"}
    for node in model.graph.node:
        if node.domain not in imported:
            yield f"{node.op_type} ({node.name!r}) is of domain {node.domain!r}"


def _unknown_operators(model: onnx.ModelProto) -> Iterator[str]:
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = versions.get(domain, versions.get("ai.onnx", 1) if domain == "" else 1)
        if domain in STANDARD_DOMAINS and not onnx.defs.has(node.op_type, version, domain):
            yield f"{node.op_type!r} ({node.name!r}) in opset {version}"


def _missing_values(model: onnx.ModelProto) -> Iterator[str]:
    graph = model.graph
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    known |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (f"{name!r} of {node.name or node.op_type!r}" for name in uses(node) if name not in known)
    yield from (f"output {value.name!r}" for value in graph.output if value.name not in known)


RULES: tuple[tuple[str, Callable[[onnx.ModelProto], Iterable[str]]], ...] = (
    ("values are made more than once", _repeated_values),
    ("values are used but never made", _missing_values),
    ("operator sets are used but not imported", _unknown_domains),
    ("operators do not exist", _unknown_operators),
)


def uses(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names the node reads, outer values of its subgraphs included, each once."""
    return tuple(dict.fromkeys((*filter(None, node.input), *captures(node))))


def captures(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names of outer values that the node's subgraphs read, each once."""
    found = (name for attribute in node.attribute for body in subgraphs(attribute) for name in _free_names(body))
    return tuple(dict.fromkeys(found))


def _free_names(body: onnx.GraphProto) -> Iterator[str]:
    local = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    local |= {tensor.values.name for tensor in body.sparse_initializer}
    for node in body.node:
        yield from (name for name in uses(node) if name not in local)
        local.update(node.output)
    yield from (value.name for value in body.output if value.name not in local)


def sort_nodes(loaded: LoadedModel) -> None:
    """Put the nodes in a topological order, the file's own where it is one.

    Raises:
        InvalidModelError: the nodes form a cycle.
    """
    graph = loaded.proto.graph
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = {index: {maker[name] for name in uses(node) if name in maker} for index, node in enumerate(graph.node)}
    if all(before < index for index, makers in needs.items() for before in makers):
        return
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
        node.name = _free_name(f"{node.name or node.op_type}_{position}", taken)
        taken.add(node.name)
        seen.add(node.name)
        renamed += 1
    return renamed


def _free_name(wanted: str, taken: set[str]) -> str:
    name, attempt = wanted, 1
    while name in taken:
        name, attempt = f"{wanted}_{attempt}", attempt + 1
    return name
