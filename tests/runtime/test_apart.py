"""A thread that work is handed to begins on another core than the one who goes on."""

from __future__ import annotations

import os
from queue import SimpleQueue
from threading import Thread

import pytest

from hetpart.runtime.apart import Desk, _core

Told = tuple[int, set[int]]


def told(desk: Desk[str], answers: SimpleQueue[Told]) -> None:
    desk.sit()
    answers.put((_core(), os.sched_getaffinity(0)))
    while desk.get() != "home":
        answers.put((_core(), os.sched_getaffinity(0)))


@pytest.mark.parametrize("own", [0, 1])
def test_who_is_handed_work_wakes_elsewhere_and_is_free_again(own: int) -> None:
    everywhere = os.sched_getaffinity(0)
    desk, answers = Desk[str](), SimpleQueue[Told]()
    thread = Thread(target=told, args=(desk, answers))
    thread.start()
    answers.get()
    here = sorted(everywhere)[own % len(everywhere)]
    os.sched_setaffinity(0, {here})
    try:
        for _ in range(50):
            desk.put_beside("work")
            core, free = answers.get()
            assert core != here or everywhere == {here}
            assert free == everywhere
    finally:
        os.sched_setaffinity(0, everywhere)
        desk.put("home")
        thread.join()


def test_a_thread_that_may_run_on_one_core_alone_is_left_there() -> None:
    desk, answers = Desk[str](), SimpleQueue[Told]()
    (core, *_) = everywhere = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    try:
        thread = Thread(target=told, args=(desk, answers))
        thread.start()
        answers.get()
        desk.put_beside("work")
        assert answers.get() == (core, {core})
        desk.put("home")
        thread.join()
    finally:
        os.sched_setaffinity(0, everywhere)
