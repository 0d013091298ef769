# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A plan as graphs of NetworkX."""

from __future__ import annotations

from typing import Any

from hetpart.graph.ir import Graph
from hetpart.plan.edges import partition_edges
from hetpart.plan.model import Plan


def op_network(graph: Graph, plan: Plan) -> Any:
    """``graph.to_networkx()``, each op with its ``device``, ``partition``, predicted ``seconds`` and ``reason``."""
    view = graph.to_networkx()
    for decision in plan.decisions:
        view.nodes[decision.op].update(
            device=decision.device,
            partition=decision.partition,
            seconds=decision.seconds.get(decision.device),
            reason=decision.reason,
        )
    return view


def partition_network(plan: Plan) -> Any:
    """A ``networkx.MultiDiGraph`` of partitions by their ``id``, with an edge for every value between two.

    Nodes carry ``device``, ``ops``, ``seconds`` and ``weight_bytes``; edges ``value``, ``nbytes`` and ``copy_seconds``,
    which is None where both are on one device.
    """
    import networkx

    view = networkx.MultiDiGraph(name=plan.model.name)
    for part in plan.partitions:
        view.add_node(part.id, device=part.device, ops=part.ops, seconds=part.seconds, weight_bytes=part.weight_bytes)
    for edge in partition_edges(plan):
        ends = plan.partitions[edge.source].id, plan.partitions[edge.target].id
        copy_seconds = None if edge.copy is None else plan.transfers[edge.copy].seconds
        view.add_edge(*ends, value=edge.value, nbytes=edge.nbytes, copy_seconds=copy_seconds)
    return view
