"""Threads that do a run's tasks: everything once, together where it can be, and an end to every wait."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from time import monotonic, sleep
from types import FrameType
from typing import Any
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.runtime import lanes as lanes_module
from hetpart.runtime.apart import Desk
from hetpart.runtime.lanes import Lanes, Run
from hetpart.runtime.tasks import Task, TaskGraph
from tests.runtime.test_scheduler import graphs

SOON = 10.0
"""Seconds after which a test gives up waiting. None of them waits so long unless something hangs."""


@dataclass
class Work:
    """What tasks did, and what they do."""

    deed: Callable[[int], None] = lambda _: None
    done: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    stops: int = 0

    def do(self, task: int) -> None:
        self.deed(task)
        self.done.append(task)

    def stop(self) -> None:
        self.stops += 1

    def run(self, graph: TaskGraph) -> Run:
        return Run(graph, self.do, self.released.append, self.stop)


@contextmanager
def lanes_of(graph: TaskGraph, most: int | None = None) -> Iterator[Lanes]:
    lanes = Lanes(graph, most)
    try:
        yield lanes
    finally:
        lanes.close()
        assert not [thread for thread in lanes.threads if thread.is_alive()]


def branches(lanes: int, length: int = 1) -> TaskGraph:
    """Chains beside each other, each on a lane of its own."""
    tasks = [
        Task(
            is_copy=False,
            index=0,
            lane=lane,
            after=() if not place else (lane * length + place - 1,),
            makes=(lane * length + place,),
            reads=() if not place else (lane * length + place - 1,),
        )
        for lane in range(lanes)
        for place in range(length)
    ]
    return TaskGraph(tuple(tasks), tuple(f"lane {lane}" for lane in range(lanes)))


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), most=st.sampled_from([None, 1, 2]))
def test_every_task_is_done_once_and_every_value_released(graph: TaskGraph, most: int | None) -> None:
    with lanes_of(graph, most) as lanes:
        for _ in range(3):
            work = Work()
            lanes.run(work.run(graph))
            assert sorted(work.done) == list(range(len(graph.tasks)))
            values = graph.fed | {value for task in graph.tasks for value in task.makes}
            assert set(work.released) == values - graph.kept
            assert not work.stops


@settings(max_examples=120, deadline=None)
@given(graph=graphs(), data=st.data())
def test_whichever_task_fails_the_run_ends_and_the_next_one_works(graph: TaskGraph, data: st.DataObject) -> None:
    """Every transition of every task: before it starts, since others failed; under way; and itself failing."""
    if not graph.tasks:
        return
    failing = data.draw(st.sets(st.integers(0, len(graph.tasks) - 1), min_size=1))
    broken = TaskGraph(graph.tasks, graph.lanes, frozenset(), graph.fed, graph.most_staged)

    def deed(task: int) -> None:
        if task in failing:
            raise ZeroDivisionError(f"task {task}")

    with lanes_of(broken) as lanes:
        for _ in range(2):
            work = Work(deed)
            run = work.run(broken)
            with pytest.raises(ZeroDivisionError, match=r"task \d+"):
                lanes.run(run)
            assert run.ended
            assert not failing & set(work.done)
            made = broken.fed | {value for task in work.done for value in broken.tasks[task].makes}
            assert set(work.released) == made
            well = Work()
            lanes.run(well.run(broken))
            assert len(well.done) == len(broken.tasks)


def test_lanes_work_at_the_same_time() -> None:
    """Each task waits for the other: one after another they would never end."""
    together = threading.Barrier(3)
    with lanes_of(branches(3)) as lanes:
        lanes.run(Work(lambda _: _wait_at(together)).run(lanes.graph))


def _wait_at(barrier: threading.Barrier) -> None:
    barrier.wait(SOON)


def test_with_fewer_threads_than_lanes_tasks_wait_for_one_by_rank() -> None:
    """Two threads for five lanes: never three tasks at once, and whichever fails, all end."""
    order = [3, 1, 4, 0, 2]
    tasks = tuple(Task(is_copy=False, index=0, lane=lane, rank=rank) for lane, rank in enumerate(order))
    graph = TaskGraph(tasks, tuple(map(str, range(5))))
    running, most, begun, lock = [0], [0], list[int](), threading.Lock()
    together = threading.Barrier(2)

    def deed(task: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            begun.append(order[task])
        if order[task] < 2:
            _wait_at(together)
        with lock:
            running[0] -= 1

    with lanes_of(graph, 2) as lanes:
        lanes.run(Work(deed).run(graph))
        assert most[0] == 2
        assert set(begun[:2]) == {0, 1}
        assert set(begun[2:]) == {2, 3, 4}
        with pytest.raises(ZeroDivisionError):
            lanes.run(Work(_fail_second).run(graph))
        lanes.run(Work().run(graph))


def _fail_second(task: int) -> None:
    if task == 1:
        raise ZeroDivisionError


def test_a_chain_stays_in_one_thread() -> None:
    tasks = tuple(
        Task(is_copy=number % 2 == 1, index=0, lane=number % 4, after=(number - 1,) if number else ())
        for number in range(20)
    )
    threads: list[int] = []
    with lanes_of(TaskGraph(tasks, ("cpu", "in", "cuda:0", "out"))) as lanes:
        lanes.run(Work(lambda _: threads.append(threading.get_ident())).run(lanes.graph))
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads


def test_a_lane_that_goes_on_stays_in_its_thread() -> None:
    """Partitions one after another, each with a copy that may start when it ends, and goes first by rank."""
    length, ran, copied = 12, list[int](), threading.Event()
    partitions = [Task(False, 0, 0, (2 * place - 2,) if place else (), rank=2 * place) for place in range(length)]
    copies = [Task(True, 0, 1, (2 * place,), rank=2 * place + 1) for place in range(length)]
    tasks = tuple(task for pair in zip(partitions, copies, strict=True) for task in pair)

    def deed(task: int) -> None:
        if task % 2:
            copied.set()
            return
        ran.append(threading.get_ident())
        if task:
            assert copied.wait(SOON)  # the other thread is at it meanwhile
        copied.clear()

    with lanes_of(TaskGraph(tasks, ("cuda:0", "cuda:0->cpu")), 2) as lanes:
        lanes.run(Work(deed).run(lanes.graph))
    assert len(ran) == length
    assert len(set(ran)) == 1


def test_threads_stay_over_runs_and_go_with_their_lanes() -> None:
    before = {*threading.enumerate()}
    lanes = Lanes(branches(2, 3))
    assert len({*threading.enumerate()} - before) == 2
    seen: set[int] = set()
    for _ in range(50):
        lanes.run(Work(lambda _: seen.add(threading.get_ident())).run(lanes.graph))
    assert len(seen) <= 2
    assert len({*threading.enumerate()} - before) == 2
    threads, gone = lanes.threads, ref(lanes)
    del lanes
    gc.collect()
    assert gone() is None
    for thread in threads:
        thread.join(SOON)
    assert {*threading.enumerate()} <= before  # threads of tests before may end meanwhile


def test_a_failure_stops_what_is_under_way_elsewhere() -> None:
    """The other lane's task goes on until it is told to stop."""
    told, started = threading.Event(), threading.Event()

    def deed(task: int) -> None:
        if task == 0:
            started.wait(SOON)
            raise ZeroDivisionError
        started.set()
        assert told.wait(SOON)

    work = Work(deed)
    with lanes_of(branches(2)) as lanes:
        begin = monotonic()
        with pytest.raises(ZeroDivisionError):
            lanes.run(Run(lanes.graph, work.do, work.released.append, told.set))
        assert monotonic() - begin < SOON / 2
    assert work.done == [1]


def _wait_until(told: list[bool]) -> None:
    end = monotonic() + SOON
    while not told and monotonic() < end:
        sleep(0.001)


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_reaches_the_caller_and_stops_every_lane(presses: int) -> None:
    """Pressed again while the first is dealt with, the call ends at once; the next one waits for what is under way."""
    told: list[bool] = []
    release, under_way = threading.Event(), threading.Barrier(3)

    def deed(_: int) -> None:
        under_way.wait(SOON)
        _wait_until(told)
        if presses == 2:
            assert release.wait(SOON)

    def press() -> None:
        under_way.wait(SOON)
        for _ in range(presses):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            _wait_until(told)

    with lanes_of(branches(2, 5)) as lanes:
        work = Work(deed)
        run = Run(lanes.graph, work.do, work.released.append, lambda: told.append(True))
        presser = threading.Thread(target=press)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            lanes.run(run)
        presser.join()
        assert lanes.is_idle == (presses == 1)
        release.set()
        lanes.settle()
        assert run.ended
        assert sorted(work.done) == [0, 5], "those under way came to their end, and none started"
        assert sorted(work.released) == [0, 5]
        well = Work()
        lanes.run(well.run(lanes.graph))
        assert len(well.done) == 10


def test_ctrl_c_at_any_line_of_the_call_leaves_no_run_behind() -> None:
    """Before a thread heard of the run, while it goes on, and after its end."""
    graph = branches(2, 2)
    with lanes_of(graph) as lanes:
        places = 0
        while _interrupted(lanes, graph, places):
            places += 1
            lanes.settle()
            well = Work()
            lanes.run(well.run(graph))
            assert sorted(well.done) == [0, 1, 2, 3]
    assert places > 8


def _interrupted(lanes: Lanes, graph: TaskGraph, place: int) -> bool:
    """Whether a run was interrupted at the line of this number that its caller came to: else it came to fewer."""
    lines = count()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == lanes_module.__file__ and event == "line" and next(lines) == place:
            raise KeyboardInterrupt
        return trace

    run, earlier = Work().run(graph), sys.gettrace()
    sys.settrace(trace)
    try:
        lanes.settle()
        lanes.run(run)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(earlier)
    return False


def test_a_defect_of_the_scheduler_ends_the_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetpart.runtime.scheduler import Scheduler

    graph = branches(2, 3)
    handle = Scheduler.handle
    with lanes_of(graph) as lanes:
        for number in range(7):
            calls = iter(range(100))

            def broken(self: Scheduler, event: object, calls: Iterator[int] = calls, number: int = number) -> object:
                assert next(calls) != number, "a defect"
                return handle(self, event)

            monkeypatch.setattr(Scheduler, "handle", broken)
            with pytest.raises(AssertionError, match="a defect"):
                lanes.run(Work().run(graph))
            lanes.settle()
        monkeypatch.undo()
        lanes.run(Work().run(graph))


@pytest.mark.parametrize(("where", "name"), [(Run, "_is_first"), (Desk, "put_beside"), (Run, "_ended")], ids=str)
def test_a_fault_between_two_threads_ends_the_run_too(monkeypatch: pytest.MonkeyPatch, where: type, name: str) -> None:
    """As of memory that ends there."""

    def broken(*_: object) -> None:
        raise MemoryError("nothing left")

    graph = branches(2, 3)
    with lanes_of(graph) as lanes:
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(where, name, broken)
                with pytest.raises(MemoryError, match="nothing left"):
                    lanes.run(Work().run(graph))
                lanes.settle()
            lanes.run(Work().run(graph))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    graph = branches(2, 3)
    with lanes_of(graph) as lanes:
        lanes.run(Work().run(graph))
        context = multiprocessing.get_context("fork")
        child = context.Process(target=_run_again, args=(lanes,))
        child.start()
        child.join(SOON)
        assert child.exitcode == 0


def _run_again(lanes: Lanes) -> None:
    work = Work()
    lanes.settle()
    lanes.run(work.run(lanes.graph))
    assert len(work.done) == 6
