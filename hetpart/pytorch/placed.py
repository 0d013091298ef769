# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Which device every FX node of a program is on, by a plan whose ops come from those nodes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from torch.fx import Graph, Node

from hetpart.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.graph import ir
    from hetpart.plan.model import Decision, Plan

_LEAST = 1e-12
"""Seconds that an op counts for at least: some are predicted to take none."""


def device_by_source(plan: Plan, graph: ir.Graph) -> dict[str, str]:
    """By the name of an FX node, the device that does most of its work."""
    sources = {op.name: op.source.node for op in graph.ops if op.source is not None}
    work: dict[str, dict[str, float]] = {}
    for decision in plan.decisions:
        if decision.op in sources:
            add_work(work.setdefault(sources[decision.op], {}), decision)
    return {node: busiest(devices) for node, devices in work.items()}


def add_work(work: dict[str, float], decision: Decision) -> None:
    """Add what the op is predicted to take on its device."""
    work[decision.device] = work.get(decision.device, 0.0) + decision.seconds.get(decision.device, 0.0) + _LEAST


def add_up(work: dict[str, float], more: Mapping[str, float]) -> None:
    """Add ``more`` to ``work``."""
    for device, seconds in more.items():
        work[device] = work.get(device, 0.0) + seconds


def busiest(work: Mapping[str, float]) -> str:
    """The device with most work, the first by name where two have as much."""
    return max(sorted(work), key=work.__getitem__)


def device_by_node(graph: Graph, plan: Plan, known: Mapping[str, str]) -> dict[Node, str]:
    """The device of every node of ``graph`` that computes something.

    A node without an op of its own, as one that only makes constants, is where it is used first; what takes an entry of
    a tuple is where the tuple is made, and tuples do not cross.
    """
    host = plan.devices[HOST].device
    found: dict[Node, str] = {}
    for node in reversed(graph.nodes):
        if node.op in ("call_function", "call_method", "call_module"):
            users = (found[user] for user in node.users if user in found)
            found[node] = known.get(node.name) or next(users, host)
    for node in graph.nodes:
        if node in found and node.target is operator.getitem and isinstance(node.args[0], Node):
            found[node] = found.get(node.args[0], found[node])
    return found
