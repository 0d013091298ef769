"""Ops on values without elements."""

from __future__ import annotations

from hetpart.graph.ir import Graph


def empty_products(graph: Graph) -> frozenset[str]:
    """Names of the products of matrices, one of whose sizes is 0."""
    products = (op for op in graph.ops if op.op_type == "MatMul")
    return frozenset(op.name for op in products if any(0 in (graph.values[use].shape or ()) for use in op.uses))
