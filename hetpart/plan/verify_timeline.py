"""What makes a timeline consistent with its plan: rows of (rule, what breaks it), as in ``verify``.

What these rules let through can be run by lanes that keep their own pace: no task reads a value that is not there, or
writes over one that is still in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from hetpart.plan.homes import home
from hetpart.plan.model import Buffer, Plan
from hetpart.plan.occupancy import Occupancy
from hetpart.plan.predicted import Place, touched
from hetpart.plan.streamed import streamed_weights
from hetpart.plan.timeline import Task, TaskKind

_Masks = dict[Place, int]
"""Tasks, a bit each, by what they write or read."""
_NOBODY = -1
"""The lowest bit of 0."""


def miscounted(plan: Plan) -> Iterator[str]:
    """Partitions and copies that the timeline names not once, or that there are none of."""
    if plan.timeline is not None:
        named = [(task.kind, task.index) for task in plan.timeline.tasks]
        known = [(TaskKind.PARTITION, index) for index in range(len(plan.partitions))]
        known += [(TaskKind.COPY, index) for index in range(len(plan.transfers))]
        if sorted(named) != sorted(known):
            yield ", ".join(f"{kind} {index}" for kind, index in sorted(set(named) ^ set(known))) or "a task twice"


def out_of_lane(plan: Plan) -> Iterator[str]:
    """Tasks on a lane that is not theirs."""
    return (_name(task) for task in _sound_tasks(plan) if task.lane != _lane(plan, task))


def too_early(plan: Plan) -> Iterator[str]:
    """Tasks that start before what they wait for, or their lane, is done, or that end before they start."""
    tasks = _sound_tasks(plan)
    free: dict[str, float] = {}
    for task in tasks:
        ready = max([0.0, free.get(task.lane, 0.0), *(tasks[first].end for first in task.after)])
        if not (ready <= task.start <= task.end and isfinite(task.end)):
            yield _name(task)
        free[task.lane] = task.end


def waits_backwards(plan: Plan) -> Iterator[str]:
    """Tasks that wait for one that is not before them."""
    tasks = plan.timeline.tasks if plan.timeline else ()
    for place, task in enumerate(tasks):
        if any(not 0 <= first < place for first in task.after):
            yield _name(task)


def read_too_early(plan: Plan) -> Iterator[str]:
    """Values that some task does not wait for, though it reads them."""
    run = _Run.of(plan)
    if run is None:
        return
    given = {(name, plan.devices[0].device) for name in streamed_weights(plan)}
    given |= {(spec.name, home(plan, spec.name)) for spec in plan.inputs}
    for place, readers in run.reads.items():
        writers = run.writes.get(place, 0)
        if place not in given and any(not run.before[task] & writers for task in _members(readers & ~writers)):
            yield f"{place[0]} on {place[1]}"


def overwritten(plan: Plan) -> Iterator[str]:
    """Values that some task may write over while another needs them."""
    run = _Run.of(plan)
    if run is None:
        return
    arenas: dict[str, Occupancy] = {}
    held = sorted((buffer for buffer in plan.buffers if buffer.nbytes > 0), key=run.written)
    for number, buffer in enumerate(held):
        arena = arenas.setdefault(buffer.device, Occupancy())
        for other in arena.take(buffer.offset, buffer.offset + buffer.nbytes, number):
            if not run.done_before(held[other], buffer):
                yield f"{held[other].value} and {buffer.value} on {buffer.device}"


@dataclass(frozen=True, slots=True)
class _Run:
    """What the tasks of a timeline write and read, and which are certain to be done before which."""

    before: tuple[int, ...]
    """Per task: those that are done whenever it starts, a bit each."""
    writes: _Masks
    reads: _Masks
    """What a task reads inside the partition that it makes it in is not among them."""
    returned: frozenset[Place]

    @classmethod
    def of(cls, plan: Plan) -> _Run | None:
        """``None`` where there is no timeline, or one that other rules refuse."""
        tasks = _sound_tasks(plan)
        if not tasks:
            return None
        run = cls(_certain(tasks), {}, {}, frozenset((spec.name, home(plan, spec.name)) for spec in plan.outputs))
        for position, task in enumerate(tasks):
            for masks, places in zip((run.writes, run.reads), touched(plan, task.kind, task.index), strict=True):
                for place in places:
                    masks[place] = masks.get(place, 0) | 1 << position
        return run

    def written(self, buffer: Buffer) -> int:
        """Place of the task that writes ``buffer``."""
        return _lowest(self.writes.get((buffer.value, buffer.device), 0))

    def done_before(self, earlier: Buffer, later: Buffer) -> bool:
        """Whether nothing needs ``earlier`` any more when ``later`` is written."""
        place = earlier.value, earlier.device
        writer = self.written(later)
        users = self.writes.get(place, 0) | self.reads.get(place, 0)
        return place not in self.returned and writer != _NOBODY and not users & ~self.before[writer]


def _certain(tasks: tuple[Task, ...]) -> tuple[int, ...]:
    last: dict[str, int] = {}
    before: list[int] = []
    for place, task in enumerate(tasks):
        waited = (*task.after, last[task.lane]) if task.lane in last else task.after
        mask = 0
        for first in waited:
            mask |= before[first] | 1 << first
        before.append(mask)
        last[task.lane] = place
    return tuple(before)


def _sound_tasks(plan: Plan) -> tuple[Task, ...]:
    """The tasks of a timeline that can be read at all."""
    if plan.timeline is None or not plan.devices or any(miscounted(plan)) or any(waits_backwards(plan)):
        return ()
    return plan.timeline.tasks


def _lane(plan: Plan, task: Task) -> str:
    if task.kind is TaskKind.PARTITION:
        return plan.partitions[task.index].device
    copy = plan.transfers[task.index]
    return f"{copy.source}->{copy.target}"


def _name(task: Task) -> str:
    return f"{task.kind} {task.index}"


def _members(mask: int) -> Iterator[int]:
    while mask:
        yield _lowest(mask)
        mask &= mask - 1


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
