"""The ops of a plan as a table: what CSV and frames hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hetpart.plan.model import Decision, Plan


def op_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """A row for every op, in the graph's order; seconds are predicted, ``None`` where a device has no kernel."""
    devices = [use.device for use in plan.devices]
    return (_row(decision, devices) for decision in plan.decisions)


def _row(decision: Decision, devices: list[str]) -> dict[str, Any]:
    return {
        "op": decision.op,
        "op_type": decision.op_type,
        "scope": decision.scope,
        "line": decision.line,
        "device": decision.device,
        "partition": decision.partition,
        "seconds": decision.seconds.get(decision.device),
        **{f"{device} seconds": decision.seconds.get(device) for device in devices},
        "flops": decision.flops,
        "bytes_moved": decision.bytes_moved,
        "intensity": decision.intensity,
        "weight_bytes": decision.weight_bytes,
        "pinned": decision.pinned,
        "reason": decision.reason,
    }
