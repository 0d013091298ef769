"""Runs that nobody waits for: who is told of them, and how they end when their program does."""

from __future__ import annotations

import signal
import subprocess
import sys
from queue import SimpleQueue
from time import sleep
from typing import Any

import pytest

from hetpart.errors import InvalidOptionError
from tests.runtime.models import assert_same, cut, plain
from tests.runtime.test_interrupts import LONG, LOOP, PLACEMENTS, SHORT, SOON, pressed_after

BEGIN = """
import asyncio, sys
from tests.runtime.models import cut
from tests.runtime.test_interrupts import LONG, LOOP, PLACEMENTS, SHORT

session = cut(LOOP, PLACEMENTS[int(sys.argv[1])], overlap=len(sys.argv) > 2)

def asked(feed):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    def tell(results, _, error):
        print("told", error, flush=True)
        loop.call_soon_threadsafe(lambda: future.cancelled() or future.set_result(results))
    session.run_async(None, feed, tell)
    return future

async def both():
    await asked(SHORT)
    print("ready", flush=True)
    await asked(LONG)
"""
ENDINGS = {
    "a session that the coroutine opened": """
async def inside():
    with session:
        await both()
asyncio.run(inside())
""",
    "a session around it all": """
with session:
    asyncio.run(both())
""",
    "a session that nobody closes": """
asyncio.run(both())
""",
}


@pytest.mark.parametrize("placement", ["0", "1 overlap"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_ctrl_c_ends_a_run_that_a_coroutine_waits_for(ending: str, placement: str) -> None:
    command = [sys.executable, "-c", BEGIN + ENDINGS[ending], *placement.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == ["told \n", "ready\n"]
        sleep(0.2)
        child.send_signal(signal.SIGINT)
        told, errors = child.communicate(timeout=SOON)
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert told.startswith("told the run was given up") or "nobody closes" in ending


def test_a_program_that_ends_waits_for_the_runs_it_asked_for() -> None:
    ending = "session.run_async(None, SHORT, lambda results, *_: print(results[0].shape))"
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + ending, "0"], capture_output=True, text=True, check=True, timeout=SOON
    )
    assert done.stdout == "(4,)\n"
    assert not done.stderr


def _left_by(error: BaseException, fed: dict[str, Any], told: SimpleQueue[Any]) -> None:
    """A session of three runs under way is left so."""
    with cut(LOOP, PLACEMENTS[1]) as session:
        for number in range(3):
            session.run_async(None, fed, lambda *what: told.put(what), number)
        raise error


def test_runs_that_wait_are_given_up_too_and_all_are_told() -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    with pytest.raises(KeyboardInterrupt):
        _left_by(KeyboardInterrupt(), LONG, told)
    for number in range(3):
        results, mine, error = told.get_nowait()
        assert (results, mine) == ([], number)
        assert "given up" in error


def test_an_error_of_the_callers_ends_no_run() -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    with pytest.raises(ZeroDivisionError):
        _left_by(ZeroDivisionError(), SHORT, told)
    results, _, error = told.get_nowait()
    assert not error
    assert_same(results, plain(LOOP).run(None, SHORT))


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_raises_is_logged_and_the_next_run_is_told_of(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    told: SimpleQueue[Any] = SimpleQueue()

    def fails(*_: Any) -> None:
        raise raised

    with cut(LOOP, PLACEMENTS[1]) as session:
        session.run_async(None, SHORT, fails)
        session.run_async(None, SHORT, lambda *what: told.put(what))
    assert raised.__name__ in caplog.text
    assert not told.get_nowait()[2]


@pytest.mark.parametrize("callback", [None, "print"])
def test_a_run_that_nobody_would_be_told_of_is_refused(callback: Any) -> None:
    with cut(LOOP, PLACEMENTS[1]) as session, pytest.raises(InvalidOptionError, match="nobody would be told"):
        session.run_async(None, SHORT, callback)


def _asked_while_one_runs(told: SimpleQueue[Any]) -> None:
    with cut(LOOP, PLACEMENTS[1]) as session:
        session.run_async(None, LONG, lambda *what: told.put(what), 0)
        sleep(0.3)  # so that it is under way
        session.run_async(None, SHORT, lambda *what: told.put(what), 1)
        assert told.empty()
        raise KeyboardInterrupt


def test_who_asks_for_a_run_does_not_wait_for_another() -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    with pytest.raises(KeyboardInterrupt):
        _asked_while_one_runs(told)
    assert [told.get_nowait()[1] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("accelerated", PLACEMENTS)
def test_ctrl_c_while_a_session_closes_ends_its_runs_and_all_are_told(accelerated: tuple[str, ...]) -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    session = cut(LOOP, accelerated)
    for number in range(2):
        session.run_async(None, LONG, lambda *what: told.put(what), number)
    with pytest.raises(KeyboardInterrupt), pressed_after(0.3):
        session.close()
    assert sorted(told.get_nowait()[1] for _ in range(2)) == [0, 1]
    session.close()


FORKED = """
import os, sys
from queue import SimpleQueue
from tests.runtime.models import cut
from tests.runtime.test_interrupts import LOOP, PLACEMENTS, SHORT

session, told = cut(LOOP, PLACEMENTS[int(sys.argv[1])]), SimpleQueue()

def ask():
    session.run_async(None, SHORT, lambda results, _, error: told.put(error))
    assert told.get(timeout=20) == ""

ask()
child = os.fork()
if sys.argv[2] == "asks":
    ask()
if child == 0:
    session._end_later()
    os._exit(7)  # ONNX Runtime's own threads are not there either: freeing its sessions would wait for them
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
ask()
session.close()
"""


@pytest.mark.parametrize("placement", ["0", "1"])
@pytest.mark.parametrize("child", ["asks", "closes"])
def test_a_forked_process_has_later_runs_of_its_own(child: str, placement: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, placement, child]
    ended = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
