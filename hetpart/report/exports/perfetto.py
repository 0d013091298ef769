"""The predicted run as a trace that Perfetto opens. `hetpart run --trace` writes a measured one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from hetpart.plan.memory import memory_over_time
from hetpart.plan.model import Plan
from hetpart.plan.predicted import PredictedRun, PredictedTask, predicted_run
from hetpart.plan.trace_events import Event, named, slice_event
from hetpart.report.exports.exported import Exported

_PROCESS = 1
_ARROW_LEAVES = 0.999
"""Where in a slice: an arrow belongs to the slice it lies in, so it leaves before the end."""


def trace(exported: Exported) -> str:
    """A slice for every partition and copy on its lane, arrows of copies, bytes in use on every device."""
    plan, run = exported.plan, predicted_run(exported.plan)
    how = "overlapped" if run.overlapped else "one after another"
    threads = {lane: number for number, lane in enumerate(run.lanes, 1)}
    events = [
        *named({_PROCESS: f"predicted, {how}"}, threads),
        *(_slice(plan, task, threads) for task in run.tasks),
        *_arrows(run, threads),
        *_counters(plan, run),
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _slice(plan: Plan, task: PredictedTask, threads: Mapping[str, int]) -> Event:
    kind = "copy" if task.is_copy else "partition"
    # Perfetto keeps whole nanoseconds: a slice that ended one later than the next begins would not nest.
    start, end = round(task.start, 9), round(task.end, 9)
    event = slice_event(_PROCESS, threads[task.lane], task.name, start, end - start, kind)
    return event | {"args": _details(plan, task)}


def _details(plan: Plan, task: PredictedTask) -> dict[str, Any]:
    if task.is_copy:
        copy = plan.transfers[task.index]
        return {"value": copy.value, "bytes": copy.nbytes}
    part = plan.partitions[task.index]
    ends = {"first": part.ops[0], "last": part.ops[-1]} if part.ops else {}
    return {"ops": len(part.ops), **ends, "weight_bytes": part.weight_bytes, "peak_bytes": part.peak_bytes}


def _arrows(run: PredictedRun, threads: Mapping[str, int]) -> Iterator[Event]:
    """From what makes a value to its copy, and from the copy to what reads that."""
    makers = {place: task for task in run.tasks for place in task.makes}
    numbers = count(1)
    for task in run.tasks:
        for place in task.reads:
            maker = makers.get(place)
            if maker is not None and (maker.is_copy or task.is_copy):
                head = {"cat": "flow", "name": place[0], "id": next(numbers), "pid": _PROCESS}
                leaves = 1e6 * (maker.start + _ARROW_LEAVES * maker.seconds)
                yield head | {"ph": "s", "tid": threads[maker.lane], "ts": leaves}
                yield head | {"ph": "f", "bp": "e", "tid": threads[task.lane], "ts": 1e6 * task.start}


def _counters(plan: Plan, run: PredictedRun) -> Iterator[Event]:
    for memory in memory_over_time(plan, run):
        held = {
            "weights": memory.use.weight_bytes,
            "states": memory.use.state_bytes,
            "sessions": memory.use.session_bytes,
        }
        for step in memory.steps:
            args = held | {"values": step.value_bytes, "inside": step.inside_bytes}
            name = f"bytes in use, {memory.use.device}"
            yield {"ph": "C", "pid": _PROCESS, "name": name, "ts": 1e6 * step.start, "args": args}
