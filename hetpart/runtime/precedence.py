"""What the tasks of a plan wait for, so that lanes may work at any pace.

A plan's partitions and copies are listed in an order that is right one by one. They may overlap where none of four
things forbids it: a task reads what another makes; it writes to bytes of an arena that another still uses; it writes
over a state that another still reads; or it makes a value outside the arenas of a device with a budget while values are
held there that in the listed order would be gone.
So a device holds no more at once than it does in the listed order: its partitions share a lane, its arena is as
planned, and values beside the arena are held together only where they are in the listed order too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hetpart.plan.model import Buffer, Transfer
from hetpart.plan.occupancy import Occupancy
from hetpart.plan.streamed import streamed_weights
from hetpart.plan.timeline import TaskKind
from hetpart.runtime.tasks import Task, TaskGraph

if TYPE_CHECKING:
    from hetpart.plan.model import Partition
    from hetpart.runtime.frame import Layout, Place


@dataclass(slots=True)
class _Use:
    """Who makes the value of a place, and who reads it."""

    maker: int | None
    readers: list[int] = field(default_factory=list[int])

    @property
    def tasks(self) -> list[int]:
        return [*self.readers, *(() if self.maker is None else (self.maker,))]


@dataclass(frozen=True, slots=True)
class _Holding:
    """A value in memory, from its maker to its last reader in the listed order."""

    first: int
    last: int
    users: list[int]


def task_graph(layout: Layout) -> TaskGraph:
    """The partitions and copies of a plan, numbered as it lists them."""
    work = _listed(layout)
    numbers = {place: number for number, place in enumerate(loose_places(layout))}
    lanes = {lane: number for number, lane in enumerate(dict.fromkeys(sorted(_lane(item) for item in work)))}
    uses, after = _uses(layout, work)
    for first, then in _waits(layout, uses):
        if (
            first < then
        ):  # the other way round the plan contradicts its own order, in which it would not be right either
            after[then].add(first)
    ranks = _ranks(layout, work)
    tasks = tuple(
        replace(
            _task(layout, item, numbers), lane=lanes[_lane(item)], after=tuple(sorted(after[task])), rank=ranks[task]
        )
        for task, item in enumerate(work)
    )
    return TaskGraph(
        tasks,
        tuple(lanes),
        frozenset(numbers[place] for place in _results(layout) if place in numbers),
        frozenset(numbers[place] for place in layout.given),
        max((memory.staging_bytes for memory in layout.memories.values()), default=0),
    )


Item = tuple[int, "Transfer | Partition"]
"""A record of the plan, and its place among those of its kind."""


def _listed(layout: Layout) -> list[Item]:
    """In the order of the plan: before every partition the copies that are done by then."""
    plan = layout.plan
    work: list[Item] = []
    for step in range(len(plan.partitions) + 1):
        work += [(index, copy) for index, copy in enumerate(plan.transfers) if copy.step == step]
        work += list(enumerate(plan.partitions))[step : step + 1]
    return work


def _lane(item: Item) -> str:
    record = item[1]
    return f"{record.source}->{record.target}" if isinstance(record, Transfer) else record.device


def _reads(layout: Layout, record: Transfer | Partition) -> list[Place]:
    """Where a copy or partition finds what it needs."""
    if isinstance(record, Transfer):
        return [(record.value, record.source)]
    return [layout.place(record, name) for name in record.inputs]


def _makes(layout: Layout, record: Transfer | Partition) -> list[Place]:
    """Where a copy or partition leaves what it makes."""
    if isinstance(record, Transfer):
        return [(record.value, record.target)]
    return [layout.place(record, name) for name in record.outputs]


def _results(layout: Layout) -> list[Place]:
    return [*layout.results.values(), *(state.new for state in layout.states)]


def loose_places(layout: Layout) -> list[Place]:
    """Those outside the arenas, which hold memory as long as they are referenced. A task's values are their numbers."""
    plan = layout.plan
    found = dict.fromkeys(layout.given)
    for record in (*plan.transfers, *plan.partitions):
        found |= dict.fromkeys(_makes(layout, record))
    return [place for place in found if place not in layout.offsets]


def _task(layout: Layout, item: Item, numbers: dict[Place, int]) -> Task:
    index, record = item
    return Task(
        isinstance(record, Transfer),
        index,
        lane=0,
        reads=tuple(sorted({numbers[place] for place in _reads(layout, record) if place in numbers})),
        makes=tuple(sorted({numbers[place] for place in _makes(layout, record) if place in numbers})),
        staged=layout.far_end(record).staged(record.nbytes) if isinstance(record, Transfer) else 0,
        seconds=layout.seconds(record),
    )


def _uses(layout: Layout, work: list[Item]) -> tuple[dict[Place, _Use], list[set[int]]]:
    """Makers and readers of every place, and the tasks that each task waits for because of them."""
    weights = [(name, layout.host) for name in streamed_weights(layout.plan)]
    uses = {place: _Use(None) for place in (*layout.given, *weights)}
    after: list[set[int]] = [set() for _ in work]
    over = {state.new: state.old for state in layout.states if state.in_place}
    for task, (_, record) in enumerate(work):
        for place in _reads(layout, record):
            use = uses[place]
            use.readers.append(task)
            after[task].update(() if use.maker is None else (use.maker,))
        for place in _makes(layout, record):
            after[task].update(uses[place].tasks if place in uses else ())
            after[task].update(uses[over[place]].readers if place in over else ())
            uses[place] = _Use(task)
    return uses, [own - {task} for task, own in enumerate(after)]


def _waits(layout: Layout, uses: dict[Place, _Use]) -> Iterator[tuple[int, int]]:
    """Pairs of tasks of which the second needs memory that the first uses."""
    plan = layout.plan
    for use in plan.devices:
        mine = [buffer for buffer in plan.buffers if buffer.device == use.device and buffer.nbytes]
        yield from _waits_for_bytes(sorted(mine, key=lambda buffer: buffer.first), uses)
        if use.budget_bytes is not None:
            yield from _waits_one_by_one(_holdings(layout, use.device, uses))


def _waits_for_bytes(buffers: Iterable[Buffer], uses: dict[Place, _Use]) -> Iterator[tuple[int, int]]:
    """Who writes to bytes waits for all that use what lay there before. Those before them were waited for by these."""
    arena, users = Occupancy(), list[list[int]]()
    for buffer in buffers:
        use = uses.get((buffer.value, buffer.device), _Use(None))
        if use.maker is not None:
            for earlier in arena.take(buffer.offset, buffer.offset + buffer.nbytes, len(users)):
                yield from ((user, use.maker) for user in users[earlier])
            users.append(use.tasks)


def _holdings(layout: Layout, device: str, uses: dict[Place, _Use]) -> list[_Holding]:
    """What lies on ``device`` outside its arena, the caller's feeds left out: those are there all the time."""
    return [
        _Holding(use.maker, max(use.tasks), use.tasks)
        for place, use in uses.items()
        if place[1] == device and place not in layout.offsets and use.maker is not None
    ]


def _waits_one_by_one(holdings: list[_Holding]) -> Iterator[tuple[int, int]]:
    """Who makes a value waits until those are let go of that in the listed order are gone by then.

    Then values that are held at one moment are pairwise held together in the listed order, and so all at one place of
    it: intervals that meet pairwise share a point. Of those gone, the ones that were made before another was gone are
    waited for already by whoever made the last of them.
    """
    for holding in holdings:
        gone = [other for other in holdings if other.last < holding.first]
        latest = max((other.first for other in gone), default=0)
        yield from ((user, holding.first) for other in gone if other.last >= latest for user in other.users)


def _ranks(layout: Layout, work: list[Item]) -> list[int]:
    """Places in the plan's timeline; in the listed order for a plan that has none, or one of another plan's tasks."""
    timeline = layout.plan.timeline
    order = {
        (task.kind is TaskKind.COPY, task.index): rank for rank, task in enumerate(timeline.tasks if timeline else ())
    }
    names = [(isinstance(record, Transfer), index) for index, record in work]
    return [order[name] for name in names] if set(names) == set(order) else list(range(len(work)))
