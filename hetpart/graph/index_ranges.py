"""Which integer inputs index a table, and what they may hold: so that random feeds are legal ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.graph.ir import ValueRole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetpart.graph.ir import Graph, Op

_KEEPS_CONTENT = frozenset(
    {
        "Cast", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity", "Slice", "Split", "Transpose", "Expand",
        "Concat", "Tile", "Gather", "Pad",
    }
)  # fmt: skip
"""Ops whose outputs hold elements of their first input (of any input, for Concat)."""
_INDEX_SLOTS = {"Gather": (1,), "GatherElements": (1,), "GatherND": (1,), "ScatterElements": (1,), "ScatterND": (1,)}
_EMBED_SLOTS = ((0, 2), (1, 4))
"""EmbedLayerNormalization: ids and segment ids, with the tables they index."""
_CALLED_SLOTS = {
    "aten.embedding.default": (1,), "hetpart.lookup.default": (1,),
    "aten.embedding_bag.default": (1, 2), "aten.embedding_bag.padding_idx": (1, 2),
    "aten._embedding_bag.default": (1, 2), "aten._embedding_bag_forward_only.default": (1, 2),
    "hetpart.lookup_bags.default": (1, 2),
}  # fmt: skip
"""Lookups that PyTorch runs: ids, and where bags have bounds, these."""
_BOUNDS = 2
_INDEXING = frozenset((*_CALLED_SLOTS, *_INDEX_SLOTS, "EmbedLayerNormalization"))


def index_ranges(graph: Graph) -> dict[str, int]:
    """For every integer graph input that reaches an index operand unchanged, the smallest table it indexes."""
    sources = _sources(graph)
    found: dict[str, int] = {}
    for op in graph.ops:
        for index, rows in _indexed(graph, op) if op.op_type in _INDEXING else ():
            for name in sources.get(index, ()):
                found[name] = min(rows, found.get(name, rows))
    return found


def _sources(graph: Graph) -> dict[int, frozenset[str]]:
    """For each value, the integer inputs whose elements it holds."""
    sources = {
        value: frozenset((graph.values[value].name,))
        for value in graph.inputs
        if "int" in graph.values[value].dtype and graph.values[value].role is ValueRole.INPUT
    }
    for op in graph.ops:
        if op.op_type not in _KEEPS_CONTENT:
            continue
        read = op.inputs if op.op_type == "Concat" else op.inputs[:1]
        names = frozenset[str]().union(*(sources.get(value, frozenset()) for value in read if value is not None))
        if names:
            sources.update(dict.fromkeys(op.results, names))
    return sources


def _indexed(graph: Graph, op: Op) -> Iterable[tuple[int, int]]:
    """(index operand, rows of the table it indexes) of ``op``.

    Bounds of bags ascend from 0, as they do where all are 0: every bag but the last is empty then.
    """
    for slot in _CALLED_SLOTS.get(op.op_type, ()):
        table, index = op.inputs[0], op.inputs[slot] if slot < len(op.inputs) else None
        shape = None if table is None else graph.values[table].shape
        if index is not None and shape and shape[0]:
            yield index, 1 if slot == _BOUNDS else shape[0]
    slots = _INDEX_SLOTS.get(op.op_type, ())
    pairs = [(0, slot) for slot in slots] + (
        [(table, ids) for ids, table in _EMBED_SLOTS] if op.op_type == "EmbedLayerNormalization" else []
    )
    for table, ids in pairs:
        if len(op.inputs) <= max(table, ids):
            continue
        data, index = op.inputs[table], op.inputs[ids]
        rows = _rows(graph, op, data)
        if index is not None and rows:
            yield index, rows


def _rows(graph: Graph, op: Op, data: int | None) -> int | None:
    shape = None if data is None else graph.values[data].shape
    axis = op.attributes.get("axis", 0)
    if not shape or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return min((size for size in shape if size), default=None) if op.op_type.endswith("ND") else shape[axis]
