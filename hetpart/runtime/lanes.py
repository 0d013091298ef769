"""Threads that do the tasks of a run, as many at once as there are lanes, or cores where those do all the work.

Whoever ends a task tells the scheduler, does what may start now, and hands to other threads only what can go on beside
it: a chain of tasks stays in one thread, whichever lanes it is on. The caller waits and does nothing else, so Ctrl-C
reaches it at once. A thread that waits has always somebody who ends its wait: the last thread out of a run ends the
caller's, whatever made it leave, and ``Lanes.close`` ends theirs.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from threading import Lock, Thread
from typing import TYPE_CHECKING
from weakref import finalize

from hetpart.errors import ExecutionError
from hetpart.runtime.apart import Desk
from hetpart.runtime.events import (
    Action,
    Cancelled,
    Event,
    Failed,
    Produced,
    ReleaseBuffer,
    RunPartition,
    StartCopy,
)
from hetpart.runtime.scheduler import RunState, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetpart.runtime.tasks import TaskGraph

_BEGIN, _NOTHING = -1, -2
_NO_LANE = -1
_GLANCE_SECONDS = 0.5
"""A Ctrl-C that comes just before a wait begins does not end it: so nobody waits longer without looking up."""

Job = tuple["Run", int] | None
"""A run and a task of it; ``None`` sends a thread home."""
Jobs = Desk[Job]


class Run:
    """One run of the tasks in ``graph``.

    Args:
        graph: The tasks.
        do: Does the task of a number, and returns when it is done.
        release: Lets go of the value of a number.
        stop: Makes tasks under way come to an end soon; any of them may fail then.
    """

    __slots__ = ("_active", "_begun", "_cancelled", "_do", "_idle", "_mutex", "_over", "_release", "_scheduler",
                 "_stop", "_waiting", "ended", "error", "graph", "under_way")  # fmt: skip

    def __init__(
        self, graph: TaskGraph, do: Callable[[int], None], release: Callable[[int], None], stop: Callable[[], None]
    ) -> None:
        self.graph = graph
        self.error: BaseException | None = None
        """What the first failure was."""
        self.ended = False
        self.under_way: list[int] = []
        """Tasks that were when it was cancelled."""
        self._do, self._release, self._stop = do, release, stop
        self._scheduler = Scheduler(graph)
        self._mutex, self._over = Lock(), Lock()
        self._over.acquire()
        self._active = 0
        """Threads in this run, those that are about to enter it included."""
        self._idle: list[Jobs] = []
        """Where the others look for jobs."""
        self._waiting: list[tuple[int, int]] = []
        """A heap of (rank, task) that may start and have no thread yet; none where threads are as many as lanes."""
        self._begun = False
        self._cancelled = False

    def cancel(self) -> None:
        """Start nothing more, and end soon what is under way. Interrupted, it can be called again."""
        if not self._cancelled:
            waiting = {task for _, task in self._waiting}
            self.under_way = [task for task in self._scheduler.running if task not in waiting]
        self._cancelled = True
        self._stop()

    def wait(self) -> None:
        """Return when no thread is in the run any more, one waiter at a time. Interrupted, it can be called again."""
        while not self.ended and not self._over.acquire(timeout=_GLANCE_SECONDS):
            pass

    @property
    def is_finished(self) -> bool:
        return self._scheduler.run_state is RunState.FINISHED

    def enter(self, task: int, crew: Sequence[Jobs], own: Jobs) -> None:
        """Begin the run, unless it has begun, or do a task of it that was handed on; then all that follows.

        Args:
            task: Which.
            crew: Where the threads look for jobs.
            own: Where this one does.
        """
        try:
            if task == _BEGIN and not self._is_first(crew, own):
                return
            event, last = Produced() if task == _BEGIN else self._ended(task), task
            while (task := self._step(event, last, own)) != _NOTHING:
                event, last = self._ended(task), task
        except BaseException as error:  # noqa: BLE001 - a defect of ours: it must not keep the caller waiting
            self._note(error)
            with self._mutex:
                self._leave(own)

    def _is_first(self, crew: Sequence[Jobs], own: Jobs) -> bool:
        with self._mutex:
            if self._begun:
                return False
            self._begun, self._active = True, 1
            self._idle = [jobs for jobs in reversed(crew) if jobs is not own]
        return True

    def _ended(self, task: int) -> Event:
        """Do ``task`` and tell how it ended."""
        if self._cancelled or self.error is not None:
            return Failed(task)
        try:
            self._do(task)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._note(error)
            return Failed(task)
        return self.graph.ends[task]

    def _note(self, error: BaseException) -> None:
        with self._mutex:
            if self.error is None and not self._cancelled:
                self.error = error
        self._stop()

    def _step(self, event: Event, last: int, own: Jobs) -> int:
        """Tell the scheduler of ``last``; a task to do in this thread, which has left the run where there is none."""
        with self._mutex:
            for action in self._answer(event):
                if isinstance(action, (StartCopy, RunPartition)):
                    heappush(self._waiting, (self.graph.tasks[action.task].rank, action.task))
                elif isinstance(action, ReleaseBuffer):
                    self._release(action.value)
            if not self._waiting:
                self._leave(own)
                return _NOTHING
            mine = self._next(last)
            while self._waiting and self._idle:
                self._hand_on(heappop(self._waiting)[1])
        return mine

    def _next(self, last: int) -> int:
        """What waits for the lane that ``last`` was on, else the first: a lane that goes on wakes nobody.

        What the lane wrote last is in the caches of this thread's core. Of two lanes that took turns with two threads,
        the next partition began 30 us late, after the copies of the one before it.
        """
        lane = _NO_LANE if last == _BEGIN else self.graph.tasks[last].lane
        found = next((one for one in self._waiting if self.graph.tasks[one[1]].lane == lane), None)
        if found is None:
            return heappop(self._waiting)[1]
        self._waiting.remove(found)
        heapify(self._waiting)
        return found[1]

    def _hand_on(self, task: int) -> None:
        """To the thread that had work last: its caches and its share of the heap are warm."""
        self._idle[-1].put_beside((self, task))
        self._idle.pop()
        self._active += 1  # it waits for the mutex: a hand that could not be given is counted by nobody

    def _leave(self, own: Jobs) -> None:
        self._idle.append(own)
        self._active -= 1
        if self._active <= 0:  # below where it failed before it was counted
            self.ended = True
            self._over.release()

    def _answer(self, event: Event) -> list[Action]:
        actions = self._scheduler.handle(event)
        if self._cancelled and self._scheduler.run_state is RunState.RUNNING:
            actions += self._scheduler.handle(Cancelled())
        return actions


class Lanes:
    """Threads that wait for runs, as many as ``graph`` has lanes, and ``most``.

    They live until ``close``, or until nothing refers to this.
    """

    def __init__(self, graph: TaskGraph, most: int | None = None) -> None:
        self.graph = graph
        lanes = max(1, len(graph.lanes))
        self._hands = lanes if most is None else max(1, min(lanes, most))
        self._last: Run | None = None
        self._hire()

    def _hire(self) -> None:
        crew: list[Jobs] = [Desk() for _ in range(self._hands)]
        self._first = crew[0]
        """Of the thread that begins runs."""
        self.threads = [
            Thread(target=_work, args=(crew, own), name=f"hetpart lane {number}", daemon=True)
            for number, own in enumerate(crew)
        ]
        self._dismiss = finalize(self, _send_home, crew)
        try:
            for thread in self.threads:
                thread.start()
        except RuntimeError as error:
            self._dismiss()
            raise ExecutionError(
                f"the {len(crew)} threads that the lanes of the plan need cannot be started: {error}",
                hint="raise the limit of threads, or run with overlap=False (--no-overlap)",
            ) from error

    def run(self, run: Run) -> None:
        """Return when ``run`` has ended. One at a time, ``settle`` before each: the caller sees to that.

        Raises:
            Exception: what made a task fail; no other is under way then.
            KeyboardInterrupt: as it came; no task is under way then either.
        """
        self._last = run
        try:
            self._first.put((run, _BEGIN))
            run.wait()
        except BaseException:
            self.settle()
            raise
        if run.error is not None:
            raise run.error
        if not run.is_finished:
            raise ExecutionError("the run stopped before its last task", hint="this is a defect of hetpart: report it")

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way, as one may be whose caller was interrupted twice."""
        return self._last is None or self._last.ended

    def settle(self) -> None:
        """End a run whose caller was interrupted. Where that was before a thread heard of it, one does now."""
        if not self.threads[0].is_alive():
            self._last = None
            self._hire()  # in a process that was forked off, in which threads do not go on
        run = self._last
        if run is not None and not run.ended:
            run.cancel()
            self._first.put((run, _BEGIN))
            run.wait()
        self._last = None

    def close(self) -> None:
        """Send the threads home, once a run under way has ended."""
        self.settle()
        self._dismiss()
        for thread in self.threads:
            thread.join()


def _work(crew: Sequence[Jobs], own: Jobs) -> None:
    own.sit()
    while (job := own.get()) is not None:
        run, task = job
        run.enter(task, crew, own)
        del job, run  # and with it the run's values, while this thread waits for the next


def _send_home(crew: Sequence[Jobs]) -> None:
    for jobs in crew:
        jobs.put(None)
