"""A run as a trace in Chrome's format, which Perfetto opens: what was measured, and beside it what was predicted."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

from hetpart.plan.model import ResidencyState
from hetpart.plan.trace_events import Event, named, slice_event
from hetpart.runtime.profiles import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hetpart.runtime.frame import Layout, Place
    from hetpart.runtime.record import TaskTimes

_MEASURED, _PREDICTED = 1, 2
_EMULATED = "measured, accelerators emulated on the CPU"


def write_trace(
    path: Path,
    layout: Layout,
    tasks: Sequence[TaskTimes],
    nodes: Mapping[int, Sequence[Event]],
    *,
    emulated: bool = False,
) -> None:
    """Write ``tasks`` of one run to ``path``.

    Args:
        path: The file.
        layout: Of the plan that ran.
        tasks: By their begins.
        nodes: ONNX Runtime's events of every partition, by its place, in microseconds of ``perf_counter``.
        emulated: Whether the CPU played the accelerators; the trace says so, in words and in ``otherData``.
    """
    start = min((task.begin for task in tasks), default=0.0)
    lanes = list(dict.fromkeys(task.lane for task in sorted(tasks, key=lambda task: (task.is_copy, task.lane))))
    threads = {lane: number for number, lane in enumerate(lanes, 1)}
    events = [
        *named({_MEASURED: _EMULATED if emulated else "measured", _PREDICTED: "predicted"}, threads),
        *_measured(tasks, threads, start),
        *_arrows(tasks, threads, start),
        *_nodes(tasks, threads, nodes, start),
        *_counters(layout, tasks, start),
        *_predicted(tasks, threads),
    ]
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"emulated": emulated}}))


def _kind(task: TaskTimes) -> str:
    return "copy" if task.is_copy else "partition"


def _measured(tasks: Iterable[TaskTimes], threads: Mapping[str, int], start: float) -> Iterator[Event]:
    for task in tasks:
        event = slice_event(_MEASURED, threads[task.lane], task.name, task.begin - start, task.seconds, _kind(task))
        yield event | {"args": {**task.details, "predicted_us": 1e6 * task.predicted}}


def _predicted(tasks: Iterable[TaskTimes], threads: Mapping[str, int]) -> Iterator[Event]:
    for task in tasks:
        yield slice_event(_PREDICTED, threads[task.lane], task.name, task.predicted_begin, task.predicted, _kind(task))


def _arrows(tasks: Sequence[TaskTimes], threads: Mapping[str, int], start: float) -> Iterator[Event]:
    """From what makes a value to its copy, and from the copy to what reads that."""
    makers = {place: task for task in tasks for place in task.makes}
    numbers = count(1)
    for task in tasks:
        for place in task.reads:
            maker = makers.get(place)
            if maker is not None and (maker.is_copy or task.is_copy):
                number = next(numbers)
                head = {"cat": "flow", "name": place[0], "id": number, "pid": _MEASURED}
                # An arrow belongs to the slice it lies in: it leaves before the end of one and arrives at a begin.
                leaves = maker.begin + 0.999 * maker.seconds - start
                yield head | {"ph": "s", "tid": threads[maker.lane], "ts": 1e6 * leaves}
                yield head | {"ph": "f", "bp": "e", "tid": threads[task.lane], "ts": 1e6 * (task.begin - start)}


def _nodes(
    tasks: Iterable[TaskTimes], threads: Mapping[str, int], nodes: Mapping[int, Sequence[Event]], start: float
) -> Iterator[Event]:
    """ONNX Runtime's own events, each under the partition that ran it, and no digit of its times outside of that."""
    for task in tasks:
        first, last = 1e6 * (task.begin - start), 1e6 * (task.begin - start) + 1e6 * task.seconds
        for event in nodes_of(task, nodes):
            begin = min(max(event["ts"] - 1e6 * start, first), last)
            inside = {"ts": begin, "dur": min(event["dur"], last - begin)}
            yield event | {"pid": _MEASURED, "tid": threads[task.lane], **inside}


def _counters(layout: Layout, tasks: Sequence[TaskTimes], start: float) -> Iterator[Event]:
    """Bytes in use on every device: weights, states, and values from the begin of what makes them to their last use."""
    changes: dict[str, list[tuple[float, int]]] = {}
    last: dict[Place, float] = {}
    states = {place for state in layout.states for place in (state.old, state.new)}
    for task in tasks:
        last |= dict.fromkeys((*task.reads, *task.makes), task.end)
    for task in tasks:
        for value, device in task.makes:
            nbytes = 0 if (value, device) in states else layout.specs[value].nbytes
            changes.setdefault(device, []).append((task.begin, nbytes))
            changes[device].append((last[value, device], -nbytes))
    for device, steps in sorted(changes.items()):
        held, values = _held_bytes(layout, device), 0
        for at, change in sorted(steps):
            values += change
            args = {**held, "values": values}
            name = f"bytes in use, {device}"
            yield {"ph": "C", "pid": _MEASURED, "name": name, "ts": 1e6 * (at - start), "args": args}


def _held_bytes(layout: Layout, device: str) -> dict[str, int]:
    """All the time: by what it is."""
    resident = (r for r in layout.plan.residencies if r.device == device and r.state is not ResidencyState.STREAMED)
    states = sum(state.nbytes for state in layout.states if state.device == device)
    return {"weights": sum(residency.nbytes for residency in resident)} | ({"states": states} if states else {})
