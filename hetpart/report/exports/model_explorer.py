"""Files for Google's Model Explorer: what every node is and takes, and the copies as edges laid over the graph.

Nodes are named as in the ONNX file, which is how its ONNX adapter knows them; ``edge_overlays.ts`` and
``node_data_builder.py`` of its sources say the rest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hetpart.plan.edges import OpEdge
from hetpart.plan.model import Decision, Transfer
from hetpart.report.exports.exported import Exported, decisions_by_op, own_seconds
from hetpart.units import format_bytes, format_seconds

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 0.1, "bgColor": "#fbdccb"}, {"stop": 1, "bgColor": "#d55e00"}]
_EDGE_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
_EDGE_WIDTH = 3


def node_data(exported: Exported) -> Mapping[str, str]:
    """By the name of the file: devices, predicted seconds and bytes moved of every node, and the copies."""
    graph = exported.ops.name
    decisions = exported.plan.decisions
    devices = {one.op: {"value": one.device, "bgColor": exported.fill(one.device)} for one in decisions}
    return {
        "device.json": _written({graph: {"name": "hetpart device", "results": devices}}),
        "seconds.json": _shaded(graph, "hetpart µs", {one.op: _microseconds(one) for one in decisions}),
        "bytes.json": _shaded(graph, "hetpart bytes moved", {one.op: one.bytes_moved for one in decisions}),
        "copies.json": _written(_overlays(exported)),
    }


def _microseconds(decision: Decision) -> float:
    """As few digits as a narrow column shows."""
    return float(f"{1e6 * own_seconds(decision):.4g}")


def _shaded(graph: str, name: str, figures: Mapping[str, float]) -> str:
    results = {op: {"value": value} for op, value in figures.items()}
    return _written({graph: {"name": name, "results": results, "gradient": _GRADIENT}})


def _written(content: object) -> str:
    return json.dumps(content, allow_nan=False) + "\n"


def _overlays(exported: Exported) -> dict[str, Any]:
    """An overlay for every direction that is copied in; the caller's inputs and outputs have no node to start from."""
    decisions = decisions_by_op(exported.plan)
    labels = {copy.value: _label(copy) for copy in exported.plan.transfers}
    crossing: dict[tuple[str, str], list[OpEdge]] = defaultdict(list)
    for edge in exported.ops.edges:
        ends = [decisions.get(edge.source), decisions.get(edge.target)]
        if edge.value in labels and _cross(ends):
            crossing[_ways(ends)].append(edge)
    overlays = [
        {
            "name": f"{source} → {target}",
            "edgeColor": _EDGE_COLOURS[number % len(_EDGE_COLOURS)],
            "edgeWidth": _EDGE_WIDTH,
            "edges": [
                {"sourceNodeId": edge.source, "targetNodeId": edge.target, "label": labels[edge.value]}
                for edge in edges
            ],
        }
        for number, ((source, target), edges) in enumerate(sorted(crossing.items()))
    ]
    return {"type": "edge_overlays", "name": "hetpart copies", "overlays": overlays}


def _label(copy: Transfer) -> str:
    """In ASCII: on a letter that its font lacks, as µ, Model Explorer draws none of the overlay."""
    return f"{format_bytes(copy.nbytes)}, {format_seconds(copy.seconds)}".replace("µ", "u")


def _cross(ends: Sequence[Decision | None]) -> bool:
    return all(end is not None for end in ends) and len({end.device for end in ends if end is not None}) > 1


def _ways(ends: Sequence[Decision | None]) -> tuple[str, str]:
    source, target = (end.device for end in ends if end is not None)
    return source, target
