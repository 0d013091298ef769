# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Put the bodies of a model's local functions where they are called, so that placement sees the ops inside them."""

from __future__ import annotations

import graphlib
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.walk import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetpart.graph.load import LoadedModel

Key = tuple[str, str, str]
"""Domain, name and overload: what a call and a function have in common."""
MOST_NODES = 1_000_000
"""Nodes after inlining. Twenty functions that each call the next twice make a million from twenty."""
MOST_NESTED = 200


def inline_functions(loaded: LoadedModel) -> LoadedModel:
    """``loaded`` without local functions.

    Raises:
        InvalidModelError: functions call each other in a circle, too deep, or too often, or are broken.
    """
    if not loaded.proto.functions:
        return loaded
    _require_finite(loaded)
    _agree_on_versions(loaded)
    from onnx import checker, inliner

    try:
        inlined = inliner.inline_local_functions(loaded.proto)
    except (RuntimeError, ValueError, checker.ValidationError) as error:
        raise _refusal(loaded, f"a local function cannot be inlined: {error}") from error
    return replace(loaded, proto=inlined)


def _refusal(loaded: LoadedModel, problem: str) -> InvalidModelError:
    return InvalidModelError(f"{loaded.path or loaded.name}: {problem}", hint="export the model again")


def _agree_on_versions(loaded: LoadedModel) -> None:
    """Let every function import the operator sets as the graph does, where that changes none of its operators."""
    model = loaded.proto
    imported = {_domain(entry.domain): entry.version for entry in model.opset_import}
    for function in model.functions:
        for entry in function.opset_import:
            version = imported.setdefault(_domain(entry.domain), entry.version)
            changed = [node for node in all_nodes(function.node) if _changes(node, entry, version)]
            if changed:
                raise _refusal(
                    loaded,
                    f"local function {function.name!r} uses {changed[0].op_type} of opset {entry.version},"
                    f" which is another in the model's opset {version}",
                )
            entry.version = version
    known = {_domain(entry.domain) for entry in model.opset_import}
    for domain, version in imported.items():
        if domain not in known:
            model.opset_import.add(domain=domain, version=version)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _changes(node: onnx.NodeProto, entry: onnx.OperatorSetIdProto, version: int) -> bool:
    """Whether the node's operator in the function's version of its set differs from that in ``version``."""
    domain = _domain(node.domain)
    if domain != _domain(entry.domain) or version == entry.version:
        return False
    both = [onnx.defs.has(node.op_type, number, domain) for number in (version, entry.version)]
    if not all(both):
        return any(both)
    own, other = (onnx.defs.get_schema(node.op_type, number, domain) for number in (version, entry.version))
    return own.since_version != other.since_version


def _require_finite(loaded: LoadedModel) -> None:
    """Refuse what would inline into more than a model can be, before it is tried."""
    model = loaded.proto
    bodies = {(f.domain, f.name, f.overload): list(all_nodes(f.node)) for f in model.functions}
    calls = {key: {_called(node) for node in nodes} & set(bodies) for key, nodes in bodies.items()}
    try:
        order = list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        names = " → ".join(repr(".".join(key[:2])) for key in error.args[1])
        raise _refusal(loaded, f"local functions call each other in a circle: {names}") from error
    sizes: dict[Key, int] = {}
    depths: dict[Key, int] = {}
    for key in order:
        sizes[key] = _nodes(bodies[key], sizes)
        depths[key] = 1 + max((depths[called] for called in calls[key]), default=0)
    total, deepest = _nodes(all_nodes(model.graph.node), sizes), max(depths.values(), default=0)
    if total > MOST_NODES or deepest > MOST_NESTED:
        raise _refusal(
            loaded,
            f"local functions call each other {deepest} deep and come to {total:.3g} nodes;"
            f" at most {MOST_NESTED} and {MOST_NODES:,} are read",
        )


def _called(node: onnx.NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _nodes(nodes: Iterable[onnx.NodeProto], sizes: Mapping[Key, int]) -> int:
    return sum(1 + sizes.get(_called(node), 0) for node in nodes)
