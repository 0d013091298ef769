"""Records as JSON content, and the summary of a plan that scripts ask for first."""

from __future__ import annotations

from typing import Any

import msgspec

from hetpart.plan.figures import Baseline, DeviceUse
from hetpart.plan.model import Plan


def to_json(record: object) -> Any:
    """``record`` as dicts, lists, strings and numbers."""
    return msgspec.to_builtins(record)


def plan_content(plan: Plan) -> dict[str, Any]:
    """What ``hetpart partition --json`` and ``hetpart report --json`` say of a plan: a summary, then all of it."""
    return {"summary": summary(plan), "plan": to_json(plan)}


def summary(plan: Plan) -> dict[str, Any]:
    """Verdict, predicted latency, headroom and gap, without a loop through the plan. ``gap`` is a fraction."""
    return {
        "fits": all((use.headroom_bytes or 0) >= 0 for use in plan.devices),
        "predicted_seconds": plan.prediction.seconds,
        "overlapped_seconds": plan.timeline.seconds if plan.timeline else None,
        "gap": plan.certificate.gap,
        "lower_bound_seconds": plan.certificate.lower_bound,
        "partitions": len(plan.partitions),
        "copies": len(plan.transfers),
        "copied_bytes": sum(transfer.nbytes for transfer in plan.transfers),
        "footprint_bytes": plan.footprint_bytes,
        "devices": {use.device: _device(use) for use in plan.devices},
        "baselines": {baseline.name: _baseline(baseline) for baseline in plan.baselines},
    }


def _device(use: DeviceUse) -> dict[str, Any]:
    return {
        "budget_bytes": use.budget_bytes,
        "headroom_bytes": use.headroom_bytes,
        "ops": use.ops,
        "peak_bytes": use.peak_bytes,
        "predicted_seconds": use.seconds,
    }


def _baseline(baseline: Baseline) -> dict[str, Any]:
    return {"fits": baseline.fits, "peak_bytes": baseline.peak_bytes, "predicted_seconds": baseline.seconds}
