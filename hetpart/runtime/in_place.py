# pyright: reportUnknownMemberType=false
"""Whether a state can be updated where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.graph.calls import CALL_DOMAIN, OVERWRITES
from hetpart.graph.walk import all_nodes
from hetpart.plan.states import LOOKS, UPDATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx


def is_updated_in_place(model: bytes, given: str, returned: str) -> bool:
    """Whether the partition ``model`` may write its output ``returned`` over its input ``given``.

    It may where an op that overwrites a few elements makes the one of the other, and everything else that reads the
    input has ended by then: what the update waits for.
    """
    import onnx

    graph = onnx.load_model_from_string(model).graph
    readers = [node for node in graph.node if given in _read(node)]
    updates = [node for node in graph.node if returned in node.output]
    if len(updates) != 1 or any(output.name == given for output in graph.output):
        return False
    others = [node for node in readers if node is not updates[0]]
    if updates[0].domain == CALL_DOMAIN:  # calls are made one after another, as they are listed
        listed = [*graph.node]
        return _replaces(updates[0], given, returned) and all(
            listed.index(node) < listed.index(updates[0]) for node in others
        )
    if not _overwrites(updates[0], given):
        return False
    before = _ancestors(graph, updates[0])
    return all(node.op_type in LOOKS and set(node.output) & before for node in others)


def _overwrites(node: onnx.NodeProto, given: str) -> bool:
    plain = not node.domain or node.domain == "ai.onnx"
    return plain and node.op_type in UPDATES and node.input[0] == given and given not in node.input[1:]


def _replaces(node: onnx.NodeProto, given: str, returned: str) -> bool:
    over = next((attribute.ints for attribute in node.attribute if attribute.name == OVERWRITES), ())
    return (given, returned) in {(node.input[number], made) for number, made in zip(over, node.output, strict=False)}


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, its subgraphs included."""
    for inner in all_nodes([node]):
        yield from inner.input


def _ancestors(graph: onnx.GraphProto, node: onnx.NodeProto) -> set[str]:
    """Values that ``node`` waits for."""
    makers = {name: maker for maker in graph.node for name in maker.output}
    found: set[str] = set()
    left = list(node.input)
    while left:
        name = left.pop()
        if name and name not in found:
            found.add(name)
            left += _read(makers[name]) if name in makers else ()
    return found
