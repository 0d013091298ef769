"""Which task starts when: a state machine that is told what happened and answers what to do.

It knows no clock, no thread and no memory. Whoever drives it does every action it is given and reports every end of a
task, in whatever order they come.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, assert_never

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
    RunPartition,
    StartCopy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetpart.runtime.tasks import Task, TaskGraph


class TaskState(StrEnum):
    """Where a task stands."""

    WAITING = "waiting"
    """For other tasks."""
    READY = "ready"
    """It waits for its lane, or for staging memory, alone."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"
    """The run stopped before it started."""


class RunState(StrEnum):
    """Where the run stands."""

    NEW = "new"
    RUNNING = "running"
    FAILING = "failing"
    """A task failed, and others are still under way."""
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Signal(StrEnum):
    """What makes a state another."""

    BEGIN = "begin"
    ENABLE = "enable"
    """All that a task waits for is done."""
    START = "start"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    STOP = "stop"
    """The run stops."""
    SETTLE = "settle"
    """Nothing is under way any more, and nothing can start."""


TASK_TRANSITIONS = {
    (TaskState.WAITING, Signal.ENABLE): TaskState.READY,
    (TaskState.WAITING, Signal.STOP): TaskState.DROPPED,
    (TaskState.READY, Signal.START): TaskState.RUNNING,
    (TaskState.READY, Signal.STOP): TaskState.DROPPED,
    (TaskState.RUNNING, Signal.FINISH): TaskState.DONE,
    (TaskState.RUNNING, Signal.FAIL): TaskState.FAILED,
}
"""All there are: any other is a defect of whoever drives the machine."""
RUN_TRANSITIONS = {
    (RunState.NEW, Signal.BEGIN): RunState.RUNNING,
    (RunState.NEW, Signal.CANCEL): RunState.CANCELLING,
    (RunState.RUNNING, Signal.FAIL): RunState.FAILING,
    (RunState.RUNNING, Signal.CANCEL): RunState.CANCELLING,
    (RunState.RUNNING, Signal.SETTLE): RunState.FINISHED,
    (RunState.FAILING, Signal.FAIL): RunState.FAILING,
    (RunState.FAILING, Signal.CANCEL): RunState.FAILING,
    (RunState.FAILING, Signal.SETTLE): RunState.FAILED,
    (RunState.CANCELLING, Signal.FAIL): RunState.CANCELLING,
    (RunState.CANCELLING, Signal.CANCEL): RunState.CANCELLING,
    (RunState.CANCELLING, Signal.SETTLE): RunState.CANCELLED,
}
OUTCOMES = {
    RunState.FINISHED: Outcome.FINISHED,
    RunState.FAILED: Outcome.FAILED,
    RunState.CANCELLED: Outcome.CANCELLED,
}


class Scheduler:
    """One run of a graph of tasks.

    A lane does one task at a time. It starts, of the tasks that are ready, the one of the lowest rank, unless that is a
    copy for which there is no staging memory now. After a failure nothing starts any more.
    """

    __slots__ = (
        "busy", "graph", "held", "in_flight", "lanes", "left", "missing", "readers", "ready", "run_state", "states",
    )  # fmt: skip

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.run_state = RunState.NEW
        self.states = [TaskState.WAITING] * len(graph.tasks)
        self.missing = [len(task.after) for task in graph.tasks]
        self.readers = list(graph.readers)
        self.ready: list[list[tuple[int, int]]] = [[] for _ in graph.lanes]
        """Per lane, a heap of (rank, task)."""
        self.held: set[int] = set()
        """Values that exist and are not released."""
        self.busy = [False] * len(graph.lanes)
        self.in_flight = 0
        self.left = len(graph.tasks)
        """Tasks that may still end: those that wait, are ready, or run."""
        self.lanes = range(len(graph.lanes))

    def handle(self, event: Event) -> list[Action]:
        """What is to be done now that ``event`` has happened."""
        actions: list[Action] = []
        match event:
            case Finished() | Copied():
                self._finish(event.task, actions)
            case Failed():
                self._end(event.task, Signal.FAIL)
                self._stop(Signal.FAIL)
            case Produced():
                self._begin(actions)
            case Cancelled():
                self._stop(Signal.CANCEL)
            case _:
                assert_never(event)
        if not self.left:
            self._settle(actions)
        return actions

    def _begin(self, actions: list[Action]) -> None:
        self._turn_run(Signal.BEGIN)
        self._hold(sorted(self.graph.fed), actions)
        for task, missing in enumerate(self.missing):
            if not missing:
                self._enable(task)
        self._start(self.lanes, actions)

    def _finish(self, task: int, actions: list[Action]) -> None:
        own = self._end(task, Signal.FINISH)
        for value in own.reads:
            self.readers[value] -= 1
        if own.reads or own.makes:
            self._let_go(own.reads, actions)
            self._hold(own.makes, actions)
        if self.run_state is RunState.RUNNING:
            touched = [own.lane]
            for then in self.graph.followers[task]:
                self.missing[then] -= 1
                if not self.missing[then]:
                    touched.append(self._enable(then))
            self._start(self.lanes if own.staged else touched, actions)

    def _end(self, task: int, signal: Signal) -> Task:
        self._turn(task, signal)
        own = self.graph.tasks[task]
        self.busy[own.lane] = False
        self.in_flight -= own.staged
        self.left -= 1
        return own

    def _hold(self, values: Iterable[int], actions: list[Action]) -> None:
        self.held.update(values)
        self._let_go(values, actions)

    def _let_go(self, values: Iterable[int], actions: list[Action]) -> None:
        for value in values:
            if not self.readers[value] and value not in self.graph.kept:
                self.held.discard(value)
                actions.append(self.graph.releases[value])

    def _enable(self, task: int) -> int:
        """The lane of ``task``, which is ready now."""
        self._turn(task, Signal.ENABLE)
        own = self.graph.tasks[task]
        heappush(self.ready[own.lane], (own.rank, task))
        return own.lane

    def _start(self, lanes: Iterable[int], actions: list[Action]) -> None:
        for lane in lanes:
            ready = self.ready[lane]
            if ready and not self.busy[lane] and self._is_room(ready[0][1]):
                _, task = heappop(ready)
                self._turn(task, Signal.START)
                self.busy[lane] = True
                self.in_flight += self.graph.tasks[task].staged
                actions.append(self.graph.starts[task])

    def _is_room(self, task: int) -> bool:
        staged = self.graph.tasks[task].staged
        return not staged or not self.in_flight or self.in_flight + staged <= self.graph.most_staged

    def _stop(self, signal: Signal) -> None:
        was_stopping = self.run_state in (RunState.FAILING, RunState.CANCELLING)
        self._turn_run(signal)
        if was_stopping:
            return
        for task, state in enumerate(self.states):
            if state in (TaskState.WAITING, TaskState.READY):
                self._turn(task, Signal.STOP)
                self.left -= 1
        for ready in self.ready:
            ready.clear()

    def _settle(self, actions: list[Action]) -> None:
        self._turn_run(Signal.SETTLE)
        if self.run_state is not RunState.FINISHED:
            actions += [self.graph.releases[value] for value in sorted(self.held)]
            self.held.clear()
        actions.append(Done(OUTCOMES[self.run_state]))

    def _turn(self, task: int, signal: Signal) -> None:
        try:
            self.states[task] = TASK_TRANSITIONS[self.states[task], signal]
        except KeyError:
            raise AssertionError(f"task {task} is {self.states[task]}: {signal} cannot happen to it") from None

    def _turn_run(self, signal: Signal) -> None:
        state = RUN_TRANSITIONS.get((self.run_state, signal))
        assert state is not None, f"the run is {self.run_state}: {signal} cannot happen to it"
        self.run_state = state

    @property
    def running(self) -> list[int]:
        """Tasks under way."""
        return [task for task, state in enumerate(self.states) if state is TaskState.RUNNING]

    def validate(self) -> None:
        """Assert what holds between any two events."""
        tasks, states = self.graph.tasks, self.states
        running = self.running
        assert self.left == sum(state in _OPEN for state in states)
        assert sorted(tasks[task].lane for task in running) == [lane for lane, busy in enumerate(self.busy) if busy]
        staged = [tasks[task].staged for task in running if tasks[task].staged]
        assert self.in_flight == sum(staged)
        assert len(staged) < 2 or self.in_flight <= self.graph.most_staged
        assert all(self.readers[value] or value in self.graph.kept for value in self.held)
        self._validate_waits()

    def _validate_waits(self) -> None:
        tasks, states = self.graph.tasks, self.states
        for task, state in enumerate(states):
            waits = any(states[first] is not TaskState.DONE for first in tasks[task].after)
            assert not (waits and state in _STARTED), f"task {task} started before what it waits for was done"
            if self.run_state is RunState.RUNNING:
                assert (state is TaskState.WAITING) == waits, f"task {task} is {state}"
        heaps = sorted(task for ready in self.ready for _, task in ready)
        assert heaps == [task for task, state in enumerate(states) if state is TaskState.READY]
        for lane, ready in enumerate(self.ready):
            assert not ready or self.busy[lane] or not self._is_room(ready[0][1]), (
                f"lane {lane} does not start its task"
            )


_OPEN = (TaskState.WAITING, TaskState.READY, TaskState.RUNNING)
_STARTED = (TaskState.READY, TaskState.RUNNING, TaskState.DONE)


def makespan(graph: TaskGraph) -> float:
    """Seconds of a run in which every task takes what was predicted."""
    return max((begin + task.seconds for begin, task in zip(begins(graph), graph.tasks, strict=True)), default=0.0)


def begins(graph: TaskGraph) -> list[float]:
    """When every task of such a run starts, in seconds from its begin."""
    scheduler, now, found = Scheduler(graph), 0.0, [0.0] * len(graph.tasks)
    running: list[tuple[float, int]] = []
    event: Event | None = Produced()
    while event is not None:
        for action in scheduler.handle(event):
            if isinstance(action, StartCopy | RunPartition):
                found[action.task] = now
                heappush(running, (now + graph.tasks[action.task].seconds, action.task))
        now, task = heappop(running) if running else (now, -1)
        event = Finished(task) if task >= 0 else None
    return found
