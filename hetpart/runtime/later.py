# pyright: reportUnknownVariableType=false
"""Runs that the caller does not wait for.

Their threads are daemons: Python waits for no thread that it does not know to end. A program that comes to its end
waits for the runs that it asked for all the same, unless Ctrl-C ended it: then nobody is there to be told any more.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.runtime.feeds import checked_feeds
from hetpart.runtime.interrupts import stoppable_options

if TYPE_CHECKING:
    from hetpart.graph.granted import Asking
    from hetpart.runtime.frame import Layout
    from hetpart.runtime.sole import SoleSession
    from hetpart.runtime.states import States
    from hetpart.runtime.turn import Turn

Callback = Callable[[list[Any], Any, str], None]
"""Called with the results, what the caller gave, and what went wrong: ``""`` where nothing did."""
_LOG = logging.getLogger(__name__)
_STOPPED = "the run was given up: what waited for it was interrupted"


@dataclass(frozen=True, slots=True)
class _Job:
    """A run to make, and whom to tell."""

    run: Callable[[Any], list[Any]]
    """Given its ``RunOptions``."""
    options: Any
    is_ours: bool
    """Whether ``options`` are nobody else's, so that the run may be ended by them."""
    callback: Callback
    user_data: Any

    def do(self, crew: _Crew) -> None:
        """Make the run and tell of it. What the callback raises is logged: it has no other caller."""
        results, error = crew.made(self)
        try:
            self.callback(results, self.user_data, error)
        except BaseException:  # noqa: BLE001 - of a function of the caller's; others wait for this thread
            _LOG.exception("the callback of run_async failed")


@dataclass(slots=True)
class _Crew:
    """What the threads share."""

    jobs: SimpleQueue[_Job | None] = field(default_factory=SimpleQueue["_Job | None"])
    threads: dict[Thread, Event] = field(default_factory=dict["Thread", "Event"])
    """With what is set when one has told of its last run. A ``join`` that is interrupted takes the thread for ended."""
    under_way: list[Any] = field(default_factory=list[Any])
    """``RunOptions`` of ours."""
    stopped: bool = False
    process: int = field(default_factory=os.getpid)
    """A child that is forked off has none of the threads."""

    @property
    def is_here(self) -> bool:
        """Whether the threads are of this process."""
        return self.process == os.getpid()

    def made(self, job: _Job) -> tuple[list[Any], str]:
        """The results of a run, or none and what went wrong."""
        if job.is_ours:
            self.under_way.append(job.options)
        try:
            return ([], _STOPPED) if self.stopped else (job.run(job.options), "")
        except BaseException as error:  # noqa: BLE001 - told to the caller
            told = error.message if isinstance(error, HetpartError) else str(error)
            return [], _STOPPED if self.stopped else told
        finally:
            if job.is_ours:
                self.under_way.remove(job.options)

    def stop(self) -> None:
        """Start no run any more, and end soon those under way whose options are ours."""
        self.stopped = True
        for options in list(self.under_way):
            options.terminate = True

    def wait(self) -> None:
        """Return when every run has been told of, and the threads are gone. Interrupted, it gives the runs up."""
        if not self.is_here:
            return
        for _ in self.threads:
            self.jobs.put(None)
        try:
            self._settle()
        except BaseException:
            self.stop()
            self._settle()
            raise

    def _settle(self) -> None:
        for thread, ended in list(self.threads.items()):
            if thread is not current_thread():
                ended.wait()

    def work(self, ended: Event) -> None:
        """What a thread does."""
        try:
            while (job := self.jobs.get()) is not None:
                job.do(self)
                del job  # and with it the session, while this thread waits
        finally:
            ended.set()


def _at_exit(crew: _Crew) -> None:
    if getattr(sys, "last_type", None) is KeyboardInterrupt:  # what Python ended the program by
        crew.stop()
    crew.wait()


class LaterRuns:
    """Threads that make runs and tell of them. There are none before the first run.

    Args:
        at_once: Runs at the same time.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._crew = _Crew()
        self._end = finalize(self, _at_exit, self._crew)

    def begin(self, run: Callable[[Any], list[Any]], options: Any, callback: Callback, user_data: Any) -> None:
        """Return at once; when ``run`` has ended its thread calls ``callback``."""
        crew = self._crew
        if len(crew.threads) < self._at_once:
            ended = Event()
            thread = Thread(target=crew.work, args=(ended,), name="hetpart run_async", daemon=True)
            crew.threads[thread] = ended
            thread.start()
        is_ours = options is None
        crew.jobs.put(_Job(run, stoppable_options() if is_ours else options, is_ours, callback, user_data))

    @property
    def is_here(self) -> bool:
        """Whether they are of this process, and not of one that it was forked off."""
        return self._crew.is_here

    def give_up(self) -> None:
        """Let every run come to an end soon; all are told of."""
        self._crew.stop()

    def close(self) -> None:
        """Wait until every run has been told of."""
        self._end.detach()
        self._crew.wait()


class LaterCalls:
    """``run_async`` of a session."""

    _layout: Layout
    _sole: SoleSession | None
    _states: States
    _granted: Asking | None
    _turn: Turn
    """Held while a run is made."""
    _asking: Turn
    """Held while a run is asked for: another than runs hold, which would keep the caller waiting for theirs."""
    _later: LaterRuns | None = None

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """Of the session."""
        raise NotImplementedError

    def _require_open(self) -> None: ...

    def _asked(self, names: Iterable[str] | None) -> list[str]:
        """Of the session."""
        raise NotImplementedError

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any = None,
        run_options: Any = None,
    ) -> None:
        """Return at once; ``callback(results, user_data, error)`` is called from another thread when the run has ended.

        Raises:
            InvalidFeedError: a feed or output is not the planned one.
            InvalidOptionError: ``callback`` is no function.
        """
        if not callable(callback):
            raise InvalidOptionError(
                f"callback={callback!r} is none: nobody would be told of the run",
                hint="give a function of (results, user_data, error), or call run",
            )
        names = self._asked(output_names)
        fed, old = self._states.apart(input_feed)
        checked = {**checked_feeds(self._layout.plan.inputs, fed), **self._states.checked(old)}
        if self._granted is not None:
            self._granted.require(checked)
        with self._asking.take():
            self._require_open()
            if self._later is None or not self._later.is_here:
                self._later = LaterRuns(1 if self._sole is None else os.cpu_count() or 1)
            self._later.begin(partial(self.run, names, input_feed), run_options, callback, user_data)

    def _end_later(self, *, give_up: bool = False) -> None:
        """Return when every such run has been told of.

        Raises:
            ExecutionError: they wait for a run that is under way in this thread.
        """
        self._turn.require_other()
        with self._asking.take():
            later, self._later = self._later, None
        if later is None:
            return
        if give_up:
            later.give_up()
        later.close()
