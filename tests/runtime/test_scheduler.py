"""The scheduler against random graphs of tasks whose ends come in random orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.runtime.events import (
    Action,
    Cancelled,
    Copied,
    Done,
    Event,
    Failed,
    Finished,
    Outcome,
    Produced,
    ReleaseBuffer,
    RunPartition,
    StartCopy,
)
from hetpart.runtime.scheduler import (
    OUTCOMES,
    RUN_TRANSITIONS,
    TASK_TRANSITIONS,
    RunState,
    Scheduler,
    Signal,
    TaskState,
    makespan,
)
from hetpart.runtime.tasks import Task, TaskGraph

MOST_TASKS, MOST_LANES, STAGING = 14, 4, 10


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Tasks that each make a value, read values of earlier ones, and wait for others besides."""
    lanes = draw(st.integers(1, MOST_LANES))
    fed = draw(st.integers(0, 2))
    number = draw(st.integers(0, MOST_TASKS))
    tasks: list[Task] = []
    for task in range(number):
        earlier = st.sets(st.integers(0, task - 1), max_size=3) if task else st.just(set[int]())
        made = draw(earlier)
        feeds = draw(st.sets(st.integers(0, fed - 1))) if fed else set()
        is_copy = draw(st.booleans())
        tasks.append(
            Task(
                is_copy,
                task,
                draw(st.integers(0, lanes - 1)),
                tuple(sorted(made | draw(earlier))),
                (*sorted(feeds), *(fed + first for first in sorted(made))),
                (fed + task,),
                staged=draw(st.integers(0, STAGING + 2)) if is_copy else 0,
                seconds=draw(st.integers(0, 5)),
                rank=draw(st.integers(0, 3)),
            )
        )
    values = range(fed + number)
    kept = draw(st.sets(st.sampled_from(values), max_size=3)) if values else set()
    return TaskGraph(
        tuple(tasks), tuple(f"lane {i}" for i in range(lanes)), frozenset(kept), frozenset(range(fed)), STAGING
    )


@dataclass
class Driver:
    """Does what a scheduler says, and notes it."""

    graph: TaskGraph
    scheduler: Scheduler = field(init=False)
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    under_way: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    outcome: Outcome | None = None
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.graph)

    def tell(self, event: Event) -> None:
        if isinstance(event, Copied | Finished | Failed):
            self.under_way.remove(event.task)
            if not isinstance(event, Failed):
                self.ended.append(event.task)
        for action in self.scheduler.handle(event):
            self.do(action)
        self.scheduler.validate()
        self.most_at_once = max(self.most_at_once, len(self.under_way))

    def do(self, action: Action) -> None:
        assert self.outcome is None, "an action after the end"
        match action:
            case StartCopy(task) | RunPartition(task):
                own = self.graph.tasks[task]
                assert isinstance(action, StartCopy) == own.is_copy
                assert set(own.after) <= set(self.ended)
                assert not {own.lane} & {self.graph.tasks[other].lane for other in self.under_way}
                assert not set(own.reads) & set(self.released)
                self.started.append(task)
                self.under_way.append(task)
            case ReleaseBuffer(value):
                assert value not in self.released
                self.released.append(value)
            case Done(outcome):
                assert not self.under_way
                self.outcome = outcome

    def end(self, task: int) -> Event:
        return Copied(task) if self.graph.tasks[task].is_copy else Finished(task)


@settings(max_examples=400, deadline=None)
@given(graph=graphs(), order=st.randoms(use_true_random=False))
def test_every_task_runs_once_and_every_value_is_released_after_its_last_use(graph: TaskGraph, order: Random) -> None:
    driver = Driver(graph)
    driver.tell(Produced())
    while driver.under_way:
        driver.tell(driver.end(order.choice(driver.under_way)))
    assert driver.outcome is Outcome.FINISHED
    assert sorted(driver.started) == sorted(driver.ended) == list(range(len(graph.tasks)))
    values = graph.fed | {value for task in graph.tasks for value in task.makes}
    assert set(driver.released) == values - graph.kept
    assert driver.most_at_once <= len(graph.lanes)


@settings(max_examples=400, deadline=None)
@given(graph=graphs(), order=st.randoms(use_true_random=False), stop=st.integers(0, MOST_TASKS), cancels=st.booleans())
def test_nothing_starts_after_a_failure_and_everything_is_released(
    graph: TaskGraph, order: Random, stop: int, cancels: bool
) -> None:
    driver = Driver(graph)
    driver.tell(Produced())
    for _ in range(stop):
        if driver.under_way:
            driver.tell(driver.end(order.choice(driver.under_way)))
    if driver.outcome:
        return
    started = len(driver.started)
    driver.tell(Cancelled() if cancels else Failed(order.choice(driver.under_way)))
    while driver.under_way:
        task = order.choice(driver.under_way)
        driver.tell(order.choice([driver.end(task), Failed(task)]))
        if driver.under_way and order.random() < 0.2:
            driver.tell(Cancelled())
    assert driver.outcome is (Outcome.CANCELLED if cancels else Outcome.FAILED)
    assert len(driver.started) == started
    made = graph.fed | {value for task in driver.ended for value in graph.tasks[task].makes}
    assert set(driver.released) == made
    assert driver.scheduler.held == set()


@settings(max_examples=200, deadline=None)
@given(graph=graphs())
def test_the_predicted_run_is_between_its_longest_chain_and_everything_in_turn(graph: TaskGraph) -> None:
    ends: list[float] = []
    for task in graph.tasks:
        ends.append(task.seconds + max((ends[first] for first in task.after), default=0))
    lanes = [sum(task.seconds for task in graph.tasks if task.lane == lane) for lane in range(len(graph.lanes))]
    assert max([0, *ends, *lanes]) <= makespan(graph) <= sum(task.seconds for task in graph.tasks)


def test_two_lanes_work_at_once_and_the_lowest_rank_goes_first() -> None:
    tasks = (
        Task(is_copy=False, index=0, lane=0, seconds=3, rank=2),
        Task(is_copy=False, index=1, lane=0, seconds=1, rank=1),
        Task(is_copy=False, index=2, lane=1, seconds=3, after=(1,)),
    )
    driver = Driver(TaskGraph(tasks, ("cpu", "cuda:0")))
    driver.tell(Produced())
    assert driver.under_way == [1]
    driver.tell(Finished(1))
    assert driver.under_way == [0, 2]
    assert makespan(driver.graph) == 4


def test_copies_wait_for_staging_memory_unless_they_go_alone() -> None:
    copies = tuple(Task(is_copy=True, index=lane, lane=lane, staged=nbytes) for lane, nbytes in enumerate((6, 5, 4)))
    driver = Driver(TaskGraph(copies, ("a", "b", "c"), most_staged=10))
    driver.tell(Produced())
    assert driver.under_way == [0, 2]
    driver.tell(Copied(2))
    assert driver.under_way == [0]
    driver.tell(Copied(0))
    assert driver.under_way == [1]
    alone = Driver(TaskGraph((Task(is_copy=True, index=0, lane=0, staged=11),), ("a",), most_staged=10))
    alone.tell(Produced())
    assert alone.under_way == [0]


def test_a_run_cancelled_before_it_began_does_nothing() -> None:
    driver = Driver(TaskGraph((Task(is_copy=False, index=0, lane=0),), ("cpu",)))
    driver.tell(Cancelled())
    assert driver.outcome is Outcome.CANCELLED
    assert not driver.started


@pytest.mark.parametrize("event", [Finished(1), Failed(1), Copied(2), Produced()])
def test_what_cannot_happen_is_refused(event: Event) -> None:
    tasks = (Task(is_copy=False, index=0, lane=0), Task(is_copy=False, index=1, lane=0, after=(0,)))
    scheduler = Scheduler(TaskGraph((*tasks, Task(is_copy=True, index=0, lane=1, after=(1,))), ("cpu", "cpu->cuda:0")))
    scheduler.handle(Produced())
    with pytest.raises(AssertionError, match="cannot happen"):
        scheduler.handle(event)


def test_every_state_leads_to_an_end() -> None:
    """Of a task: done, failed or dropped. Of a run: the outcomes. From each of them nothing leads on."""
    for table, states, ends in (
        (TASK_TRANSITIONS, TaskState, {TaskState.DONE, TaskState.FAILED, TaskState.DROPPED}),
        (RUN_TRANSITIONS, RunState, set(OUTCOMES)),
    ):
        leads = {state: {table[state, signal] for signal in Signal if (state, signal) in table} for state in states}
        assert {state for state, to in leads.items() if not to} == ends
        for _, state in product(states, states):
            leads[state] |= {end for then in list(leads[state]) for end in leads[then]}
        assert all(leads[state] & ends for state in set(states) - ends)
    assert {outcome.value for outcome in OUTCOMES.values()} == {state.value for state in OUTCOMES}
