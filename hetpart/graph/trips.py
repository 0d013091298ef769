# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""How often a Loop runs its body, where the model says so by a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import numpy_helper

from hetpart.graph.ir import TripLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx
    from numpy.typing import NDArray

UNKNOWN_TRIPS = 16
"""How often a loop is taken to run where neither the user nor a shape says how often it does."""
_ENDLESS = 1 << 31
"""Limits from here on are what exporters write for no limit."""
_BODY_CONDITION = 1


def trip_limit(node: onnx.NodeProto, contents: Mapping[str, NDArray[Any]]) -> TripLimit | None:
    """How often a Loop runs at most, and whether it always does; ``None`` where only a run tells.

    Args:
        node: Any node.
        contents: Constants around it.
    """
    if node.op_type != "Loop":
        return None
    limit, begins = (contents.get(name) if name else None for name in (*node.input[:2], "", "")[:2])
    if begins is not None and begins.size == 1 and not _is_true(begins):
        return TripLimit(0, always=True)
    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    if limit is None or body is None or limit.size != 1 or int(limit.reshape(-1)[0]) >= _ENDLESS:
        return None
    begun = not any(node.input[1:2]) or _is_true(begins)
    return TripLimit(max(0, int(limit.reshape(-1)[0])), begun and _goes_on(body, contents))


def constants_of(body: onnx.GraphProto) -> dict[str, NDArray[Any]]:
    """What single constants of a body hold; none that lie in a file."""
    found = {tensor.name: tensor for tensor in body.initializer}
    for node in body.node:
        if node.op_type == "Constant" and len(node.output) == 1:
            found.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    single = {name: tensor for name, tensor in found.items() if not tensor.external_data and sum(tensor.dims) <= 1}
    return {name: numpy_helper.to_array(tensor) for name, tensor in single.items()}


def _goes_on(body: onnx.GraphProto, contents: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the body's condition is the one it was given, or always true."""
    known = {**contents, **constants_of(body)}
    # Of a truth value, Cast too makes the same.
    copies = {node.output[0]: node.input[0] for node in body.node if node.op_type in ("Cast", "Identity")}
    name = body.output[0].name if body.output else ""
    while name in copies:
        name = copies[name]
    given = body.input[_BODY_CONDITION].name if len(body.input) > _BODY_CONDITION else None
    return name == given or _is_true(known.get(name))


def _is_true(content: NDArray[Any] | None) -> bool:
    return content is not None and content.size == 1 and bool(content.reshape(-1)[0])
