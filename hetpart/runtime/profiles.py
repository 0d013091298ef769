# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""ONNX Runtime's own profiles, one of every partition, as one file."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from hetpart.errors import ExecutionError
from hetpart.runtime.called import RUN, CalledSession
from hetpart.runtime.sessions import require_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Partition, Plan
    from hetpart.runtime.record import TaskTimes
    from hetpart.runtime.sessions import PartSession

_TRUNCATED = 1
"""A begin and a duration are whole microseconds, rounded down: an end may lie so much later than their sum."""


def profiling_options(folder: Path) -> onnxruntime.SessionOptions:
    """Session options that ask for profiles, which are written to ``folder``."""
    options = require_runtime().SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    return options


def merged_profile(plan: Plan, sessions: Sequence[PartSession]) -> str:
    """End the profiles of ``sessions``, and write them into one file, a process for every partition; its name.

    Its time begins with the first of them. Where there is one partition, its own file is it.

    Raises:
        ExecutionError: a file cannot be read or written, such as one whose folder is gone.
    """
    told = [
        (partition, session.get_profiling_start_time_ns(), session.end_profiling())
        for partition, session in zip(plan.partitions, sessions, strict=True)
    ]
    parts = [(partition, start, Path(name)) for partition, start, name in told if name]
    if len(parts) < 2:
        return str(parts[0][2]) if parts else ""
    try:
        return _merged(parts)
    except OSError as error:
        raise ExecutionError(
            f"the profiles cannot be put together: {error}", hint="keep their folder until the profile has ended"
        ) from error


def _merged(parts: Sequence[tuple[Partition, int, Path]]) -> str:
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


def called_events(sessions: Sequence[PartSession]) -> dict[int, list[dict[str, Any]]]:
    """The events of what PyTorch ran, of its last run: by the session's place."""
    return {place: session.events() for place, session in enumerate(sessions) if isinstance(session, CalledSession)}


def node_events(sessions: Sequence[PartSession]) -> dict[int, list[dict[str, Any]]]:
    """End the profiles of ``sessions``: the events of nodes and of runs by the session's place.

    What PyTorch runs has events of its last run, whether profiles were asked for or not.

    Their times are microseconds of ``perf_counter``, as well as two clocks can be compared. Their files are removed.
    Where no profile was asked for, or it has ended, there are none.
    """
    found = called_events(sessions)
    for place, session in enumerate(sessions):
        if place in found:
            continue
        start, name = _on_our_clock(session.get_profiling_start_time_ns()), session.end_profiling()
        if name:
            events = json.loads(Path(name).read_text())
            Path(name).unlink()
            wanted = (event for event in events if event["cat"] == "Node" or event["name"] == RUN)
            found[place] = [event | {"ts": event["ts"] + start / 1000} for event in wanted]
    return found


def nodes_of(task: TaskTimes, events: Mapping[int, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events of nodes that ran in ``task``, their times moved into it.

    ONNX Runtime profiles by the time of day, which is set now and then, and read apart from ``perf_counter``. So the
    run of the session that lies nearest is the task's, and its nodes lie where they do in that run.
    """
    told = () if task.is_copy else events.get(task.index, ())
    begin, end = 1e6 * task.begin, 1e6 * task.end
    runs = [(event["ts"], event["ts"] + event["dur"] + _TRUNCATED) for event in told if event["name"] == RUN]
    if not runs:
        return []
    first, last = min(runs, key=lambda run: abs(sum(run) - begin - end))
    later = max(begin - first, min(0.0, end - last))
    nodes = (event for event in told if event["cat"] == "Node" and first <= event["ts"] <= last)
    return [event | {"ts": event["ts"] + later} for event in nodes]


def _on_our_clock(start: int) -> int:
    """Nanoseconds of ``perf_counter``, of a time that may be of the day instead, as on Linux."""
    now, today = perf_counter_ns(), time_ns()
    return start + now - today if abs(start - today) < abs(start - now) else start
