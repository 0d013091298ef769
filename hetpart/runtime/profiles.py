# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""ONNX Runtime's own profiles, one of every partition, as one file."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from hetpart.runtime.sessions import require_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnxruntime

    from hetpart.plan.model import Partition, Plan
    from hetpart.runtime.sessions import PartSession


def profiling_options(folder: Path) -> onnxruntime.SessionOptions:
    """Session options that ask for profiles, which are written to ``folder``."""
    options = require_runtime().SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    return options


def merged_profile(plan: Plan, sessions: Sequence[PartSession]) -> str:
    """End the profiles of ``sessions``, and write them into one file, a process for every partition; its name.

    Its time begins with the first of them. Where there is one partition, its own file is it.
    """
    told = [
        (partition, session.get_profiling_start_time_ns(), session.end_profiling())
        for partition, session in zip(plan.partitions, sessions, strict=True)
    ]
    parts = [(partition, start, Path(name)) for partition, start, name in told if name]
    if len(parts) < 2:
        return str(parts[0][2]) if parts else ""
    earliest = min(start for _, start, _ in parts)
    events = [
        event
        for partition, start, file in parts
        for event in _renumbered(partition, json.loads(file.read_text()), (start - earliest) / 1000)
    ]
    one, _, first = parts[0]
    merged = first.with_name(first.name.replace(one.file.removesuffix(".onnx") + "_", "", 1))
    merged.write_text(json.dumps(events))
    for _, _, file in parts:
        file.unlink()
    return str(merged)


def _renumbered(partition: Partition, events: list[dict[str, Any]], later: float) -> Iterator[dict[str, Any]]:
    """The events of one partition, so many microseconds later, under a process of its own, which is named."""
    name = f"partition {partition.id} on {partition.device}"
    yield {"ph": "M", "name": "process_name", "pid": partition.id, "args": {"name": name}}
    for event in events:
        yield {**event, "pid": partition.id, "ts": event["ts"] + later}


def node_events(sessions: Sequence[PartSession]) -> dict[int, list[dict[str, Any]]]:
    """End the profiles of ``sessions``: the events of nodes by the session's place, in ``perf_counter``'s microseconds.

    Their files are removed. Where no profile was asked for there are none.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    for place, session in enumerate(sessions):
        start, name = _on_our_clock(session.get_profiling_start_time_ns()), session.end_profiling()
        if name:
            events = json.loads(Path(name).read_text())
            Path(name).unlink()
            found[place] = [event | {"ts": event["ts"] + start / 1000} for event in events if event["cat"] == "Node"]
    return found


def _on_our_clock(start: int) -> int:
    """Nanoseconds of ``perf_counter``, of a time that may be of the day instead, as on Linux."""
    now, today = perf_counter_ns(), time_ns()
    return start + now - today if abs(start - today) < abs(start - now) else start
