"""Threads that do the tasks of a run, as many at once as there are lanes.

Whoever ends a task tells the scheduler, does what may start now, and hands to other threads only what can go on beside
it: a chain of tasks stays in one thread, whichever lanes it is on. The caller waits and does nothing else, so Ctrl-C
reaches it at once. A thread that waits has always somebody who ends its wait: the last thread out of a run ends the
caller's, whatever made it leave, and ``Lanes.close`` ends theirs.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING
from weakref import finalize

from hetpart.errors import ExecutionError
from hetpart.runtime.events import (
    Action,
    Cancelled,
    Copied,
    Event,
    Failed,
    Finished,
    Produced,
    ReleaseBuffer,
    RunPartition,
    StartCopy,
)
from hetpart.runtime.scheduler import RunState, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.runtime.tasks import TaskGraph

_BEGIN, _NOTHING = -1, -2


class Run:
    """One run of the tasks in ``graph``.

    Args:
        graph: The tasks.
        do: Does the task of a number, and returns when it is done.
        release: Lets go of the value of a number.
        stop: Makes tasks under way come to an end soon; any of them may fail then.
    """

    __slots__ = ("_active", "_begun", "_cancelled", "_do", "_mutex", "_over", "_release", "_scheduler", "_stop",
                 "ended", "error", "graph")  # fmt: skip

    def __init__(
        self, graph: TaskGraph, do: Callable[[int], None], release: Callable[[int], None], stop: Callable[[], None]
    ) -> None:
        self.graph = graph
        self.error: BaseException | None = None
        """What the first failure was."""
        self.ended = False
        self._do, self._release, self._stop = do, release, stop
        self._scheduler = Scheduler(graph)
        self._mutex, self._over = Lock(), Lock()
        self._over.acquire()
        self._active = 0
        """Threads in this run, those that are about to enter it included."""
        self._begun = False
        self._cancelled = False

    def cancel(self) -> None:
        """Start nothing more, and end soon what is under way. Interrupted, it can be called again."""
        self._cancelled = True
        self._stop()

    def wait(self) -> None:
        """Return when no thread is in the run any more, one waiter at a time. Interrupted, it can be called again."""
        if not self.ended:
            self._over.acquire()

    @property
    def is_finished(self) -> bool:
        return self._scheduler.run_state is RunState.FINISHED

    def enter(self, task: int, jobs: SimpleQueue[Job]) -> None:
        """Begin the run, unless it has begun, or do a task of it that was handed on; then all that follows."""
        if task != _BEGIN or self._is_first():
            self._drive(task, jobs)

    def _is_first(self) -> bool:
        with self._mutex:
            first, self._begun = not self._begun, True
            self._active += first
        return first

    def _drive(self, task: int, jobs: SimpleQueue[Job]) -> None:
        try:
            event = Produced() if task == _BEGIN else self._ended(task)
            while (task := self._step(event, jobs)) != _NOTHING:
                event = self._ended(task)
        except BaseException as error:  # noqa: BLE001 - a defect of ours: it must not keep the caller waiting
            self._note(error)
        finally:
            self._leave()

    def _ended(self, task: int) -> Event:
        """Do ``task`` and tell how it ended."""
        if self._cancelled or self.error is not None:
            return Failed(task)
        try:
            self._do(task)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._note(error)
            return Failed(task)
        return Copied(task) if self.graph.tasks[task].is_copy else Finished(task)

    def _note(self, error: BaseException) -> None:
        with self._mutex:
            if self.error is None and not self._cancelled:
                self.error = error
        self._stop()

    def _step(self, event: Event, jobs: SimpleQueue[Job]) -> int:
        """Tell the scheduler; a task to do in this thread, where there is one."""
        mine = _NOTHING
        with self._mutex:
            for action in self._answer(event):
                match action:
                    case StartCopy(task) | RunPartition(task):
                        if mine != _NOTHING:
                            self._active += 1
                            jobs.put((self, mine))
                        mine = task
                    case ReleaseBuffer(value):
                        self._release(value)
                    case _:
                        pass
        return mine

    def _answer(self, event: Event) -> list[Action]:
        actions = self._scheduler.handle(event)
        if self._cancelled and self._scheduler.run_state is RunState.RUNNING:
            actions += self._scheduler.handle(Cancelled())
        return actions

    def _leave(self) -> None:
        with self._mutex:
            self._active -= 1
            is_last = not self._active
        if is_last:
            self.ended = True
            self._over.release()


Job = tuple[Run, int] | None
"""A run and a task of it; ``None`` sends a thread home."""


class Lanes:
    """Threads that wait for runs, as many as ``graph`` has lanes.

    They live until ``close``, or until nothing refers to this.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self._last: Run | None = None
        self._hire()

    def _hire(self) -> None:
        jobs: SimpleQueue[Job] = SimpleQueue()
        self._jobs = jobs
        names = [f"hetpart lane {number}" for number in range(len(self.graph.lanes))]
        self._threads = [Thread(target=_work, args=(jobs,), name=name, daemon=True) for name in names]
        self._dismiss = finalize(self, _send_home, jobs, len(names))
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self._dismiss()
            raise ExecutionError(
                f"the {len(names)} threads that the lanes of the plan need cannot be started: {error}",
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
            self._jobs.put((run, _BEGIN))
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
        if not self._threads[0].is_alive():
            self._last = None
            self._hire()  # in a process that was forked off, in which threads do not go on
        run = self._last
        if run is not None and not run.ended:
            run.cancel()
            self._jobs.put((run, _BEGIN))
            run.wait()
        self._last = None

    def close(self) -> None:
        """Send the threads home, once a run under way has ended."""
        self.settle()
        self._dismiss()
        for thread in self._threads:
            thread.join()


def _work(jobs: SimpleQueue[Job]) -> None:
    while (job := jobs.get()) is not None:
        run, task = job
        run.enter(task, jobs)
        del job, run  # and with it the run's values, while this thread waits for the next


def _send_home(jobs: SimpleQueue[Job], threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)
