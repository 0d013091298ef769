"""The plan's timeline: the tasks of an assembled placement, laid out on their lanes within its arenas."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from hetpart.partitioner.assembly.arenas import arenas
from hetpart.partitioner.assembly.spans import Spans
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.timeline.bounds import critical_path, lane_seconds, lower_bound
from hetpart.partitioner.timeline.cut_tasks import CutTasks, lane_names
from hetpart.partitioner.timeline.finest import finest_tasks
from hetpart.partitioner.timeline.reuse import Holding, Waits, waits_for_bytes, waits_one_by_one
from hetpart.partitioner.timeline.schedule import Schedule, one_by_one
from hetpart.partitioner.timeline.search import best_schedule
from hetpart.plan.timeline import LaneUse, Task, TaskKind, Timeline

if TYPE_CHECKING:
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.timeline.tasks import Tasks


def timeline(assembly: Assembly) -> Timeline:
    """When every partition and copy would run if each lane worked at its own pace."""
    found = cut_tasks(assembly)
    within = within_memory(assembly, found)
    known = [assembly.order] if assembly.order else []
    return _written(assembly, found, within, best_schedule(within, known))


def cut_tasks(assembly: Assembly) -> CutTasks:
    """The tasks of ``assembly``, as if every value had bytes of its own."""
    solution = assembly.solution
    return CutTasks.of(assembly.formulation.problem, solution.placement, solution.cut, assembly.held)


def within_memory(assembly: Assembly, found: CutTasks) -> Tasks:
    """The tasks where each waits also until nothing needs the bytes any more that it writes to.

    Then no order of them takes more memory than the serial one: partitions of a device share one lane, values in its
    arena keep to their places, and values beside it, where there is a budget, are held together only if they are in
    serial order too.
    """
    return found.tasks.waiting_also(
        list(chain.from_iterable(_waits(assembly, found, device) for device in range(len(assembly.arenas))))
    )


def laid_out_wide(assembly: Assembly, devices: frozenset[int]) -> Assembly:
    """``assembly`` where on ``devices`` values share bytes only if they are held at different times overlapped too.

    Arenas there grow, and no task waits for bytes in them.
    """
    found = cut_tasks(assembly)
    waits = [
        (_waits_beside if device in devices else _waits)(assembly, found, device)
        for device in range(len(assembly.arenas))
    ]
    schedule = best_schedule(found.tasks.waiting_also(list(chain.from_iterable(waits))))
    wide = arenas(assembly.formulation, assembly.held, Spans.of(devices, found, schedule))
    return replace(assembly, arenas=wide, order=schedule.order)


def _waits(assembly: Assembly, found: CutTasks, device: int) -> Waits:
    arena = assembly.arenas[device]
    waits = waits_for_bytes(
        _holding(found, row, buffer.offset, buffer.nbytes)
        for row, buffer in zip(arena.rows, arena.buffers, strict=True)
    )
    return waits + _waits_beside(assembly, found, device)


def _waits_beside(assembly: Assembly, found: CutTasks, device: int) -> Waits:
    if assembly.formulation.problem.budgets[device] == NO_BUDGET:
        return []
    held = assembly.held
    return waits_one_by_one(
        _holding(found, row, 0, int(held.nbytes[row])) for row in assembly.arenas[device].rows_beside
    )


def _holding(found: CutTasks, row: int, offset: int, nbytes: int) -> Holding:
    held = found.held
    return Holding(int(held.first[row]), int(held.last[row]), offset, nbytes, found.writer[row], found.users[row])


def _written(assembly: Assembly, found: CutTasks, within: Tasks, schedule: Schedule) -> Timeline:
    names = lane_names(assembly.device_names)
    own = lane_seconds(found.tasks)
    return Timeline(
        seconds=schedule.seconds,
        serial_seconds=one_by_one(found.tasks),
        lower_bound=min(lower_bound(found.tasks), schedule.seconds),  # sums of the same seconds, rounded otherwise
        finest_bound=_finest_bound(assembly, schedule.seconds),
        critical_path=critical_path(found.tasks),
        lanes=tuple(LaneUse(names[lane], own[lane], found.tasks.lanes.count(lane)) for lane in sorted(own)),
        tasks=_tasks(found, within, schedule, names),
    )


def _finest_bound(assembly: Assembly, seconds: float) -> float:
    finest = finest_tasks(assembly.formulation.problem, assembly.solution.placement)
    return min(lower_bound(finest), seconds)


def _tasks(found: CutTasks, within: Tasks, schedule: Schedule, names: tuple[str, ...]) -> tuple[Task, ...]:
    what = {task: (TaskKind.PARTITION, index) for index, task in enumerate(found.of_partition.tolist())}
    what |= {task: (TaskKind.COPY, index) for index, task in enumerate(found.of_copy.tolist())}
    place = {task: position for position, task in enumerate(schedule.order)}
    return tuple(
        Task(
            *what[task],
            names[within.lanes[task]],
            schedule.start[task],
            schedule.end[task],
            tuple(sorted(place[first] for first in within.after[task])),
        )
        for task in schedule.order
    )
