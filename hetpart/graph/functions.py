# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Put the bodies of a model's local functions where they are called, so that placement sees the ops inside them."""

from __future__ import annotations

import graphlib
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.call_sites import CallSites, Key, key_of_call
from hetpart.graph.walk import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetpart.graph.load import LoadedModel

MOST_NODES = 1_000_000
"""Nodes after inlining. Twenty functions that each call the next twice make a million from twenty."""
MOST_BYTES = 2**28
MOST_NESTED = 100
"""As deep as ``onnx`` inlines."""


def inline_functions(loaded: LoadedModel) -> LoadedModel:
    """``loaded`` without local functions.

    Raises:
        InvalidModelError: functions call each other in a circle, too deep, or too often, or are broken.
    """
    if not loaded.proto.functions:
        return loaded
    _require_finite(loaded)
    _agree_on_versions(loaded)
    _fill_in_defaults(loaded.proto)
    from onnx import checker, inliner

    sites = CallSites.apart(loaded.proto)
    try:
        inlined = inliner.inline_local_functions(loaded.proto)
    except (RuntimeError, ValueError, checker.ValidationError) as error:
        raise _refusal(loaded, f"a local function cannot be inlined: {error}") from error
    sites.name_inlined(inlined)
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
    calls = {key: {key_of_call(node) for node in nodes} & set(bodies) for key, nodes in bodies.items()}
    try:
        order = list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        names = " → ".join(repr(".".join(key[:2])) for key in error.args[1])
        raise _refusal(loaded, f"local functions call each other in a circle: {names}") from error
    own_bytes = {(f.domain, f.name, f.overload): f.ByteSize() for f in model.functions}
    inlined: dict[Key, _Extent] = {}
    for key in order:
        deepest = max((inlined[called].depth for called in calls[key]), default=0)
        inlined[key] = _extent(bodies[key], inlined, _Extent(1 + deepest, 0, own_bytes[key]))
    depth = max((extent.depth for extent in inlined.values()), default=0)
    whole = _extent(all_nodes(model.graph.node), inlined, _Extent(depth, 0, model.graph.ByteSize()))
    if whole.depth > MOST_NESTED or whole.nodes > MOST_NODES or whole.nbytes > MOST_BYTES:
        raise _refusal(
            loaded,
            f"local functions call each other {whole.depth} deep and come to {whole.nodes:.3g} nodes of"
            f" {whole.nbytes:.3g} bytes; at most {MOST_NESTED}, {MOST_NODES:,} and {MOST_BYTES:,} are read",
        )


@dataclass(frozen=True, slots=True)
class _Extent:
    """How deep and how large nodes are with the functions they call in their place."""

    depth: int
    nodes: int
    nbytes: int


def _extent(nodes: Iterable[onnx.NodeProto], inlined: Mapping[Key, _Extent], own: _Extent) -> _Extent:
    count, nbytes = own.nodes, own.nbytes
    for node in nodes:
        called = inlined.get(key_of_call(node))
        count += 1 + (called.nodes if called else 0)
        nbytes += called.nbytes if called else 0
    return _Extent(own.depth, count, nbytes)


def _fill_in_defaults(model: onnx.ModelProto) -> None:
    """Write the defaults of a function's attributes into the calls that leave them out: the inliner forgets them."""
    defaults = {(f.domain, f.name, f.overload): list(f.attribute_proto) for f in model.functions if f.attribute_proto}
    bodies = (model.graph.node, *(function.node for function in model.functions))
    for node in all_nodes(chain.from_iterable(bodies)):
        given = {attribute.name for attribute in node.attribute}
        node.attribute.extend(default for default in defaults.get(key_of_call(node), ()) if default.name not in given)
