"""An attachment for Netron: drop it onto the open model, and every node's sidebar says where it runs and why.

Netron has no description of this format; it is as ``source/view.js`` of its version 9 reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hetpart.plan.model import Decision
from hetpart.plan.predicted import predicted_run
from hetpart.report.exports.exported import Exported, own_seconds

_Entry = dict[str, Any]


def attachment(exported: Exported) -> str:
    """Devices and reasons as metadata, predicted figures as metrics, of every node and of the model."""
    metadata: list[_Entry] = []
    metrics: list[_Entry] = []
    for decision in exported.plan.decisions:
        metadata += _metadata(decision)
        metrics += _metrics(decision)
    metrics += _of_model(exported)
    return json.dumps({"signature": "netron:attachment", "metadata": metadata, "metrics": metrics}) + "\n"


def _metadata(decision: Decision) -> Iterator[_Entry]:
    said = {"device": decision.device, "partition": str(decision.partition), "reason": decision.reason}
    return (_entry("node", decision.op, name, value) for name, value in said.items())


def _metrics(decision: Decision) -> Iterator[_Entry]:
    figures = {  # names that its narrow column shows whole
        "seconds": _rounded(own_seconds(decision)),
        "flops": decision.flops,
        "bytes": decision.bytes_moved,
        "weights": decision.weight_bytes,
    }
    return (_entry("node", decision.op, name, value) for name, value in figures.items())


def _rounded(seconds: float) -> float:
    """As the metadata of nodes has them."""
    return float(f"{seconds:.6g}")


def _of_model(exported: Exported) -> Iterator[_Entry]:
    plan = exported.plan
    yield _entry("model", "", "seconds", _rounded(predicted_run(plan).seconds))
    for use in plan.devices:
        yield _entry("model", "", f"peak.{use.device}", use.peak_bytes)


def _entry(kind: str, target: str, name: str, value: float | str) -> _Entry:
    # Netron looks a node up by the first line of its name.
    return {"kind": kind, "target": target.partition("\n")[0], "name": f"hetpart.{name}", "value": value}
