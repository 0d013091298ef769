"""Ctrl-C during a run in the caller's thread: an end soon, what was under way is named, and the next run works."""

from __future__ import annotations

import linecache
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart import Session, runtime
from tests.runtime.models import assert_same, cut, model, plain

SOON = 10.0
"""Seconds after which a test gives up waiting. None of them waits so long unless something hangs."""
LOOP = model("""loop (float[4] x, int64 n, bool on) => (float[4] z) {
    [start] s = Neg(x)
    [loop] t = Loop(n, on, s) <body = body (int64 i, bool c, float[4] a) => (bool d, float[4] b) {
        d = Identity(c) b = Cos(a)
    }>
    [end] z = Abs(t)
}""")
EVERYTHING = ("start", "loop", "end")
"""All on the accelerator: one partition, and copies. Nothing there: ONNX Runtime's own session."""
PLACEMENTS = [(), EVERYTHING, ("end",), ("start",)]


def feed(rounds: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.array([1, -2, 3, -4], np.float32), "n": np.array(rounds), "on": np.array(True)}


LONG, SHORT = feed(2**40), feed(3)


def _ort_values(session: Session, fed: dict[str, Any]) -> Any:
    return session.run_with_ort_values(
        None, {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in fed.items()}
    )


def _bound(session: Session, fed: dict[str, Any]) -> Any:
    binding = session.io_binding()
    for name, value in fed.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def _plainly(session: Session, fed: dict[str, Any]) -> Any:
    return session.run(None, fed)


@contextmanager
def pressed_after(seconds: float) -> Iterator[None]:
    """Ctrl-C comes when so much time has passed, unless the block has ended."""
    timer = threading.Timer(seconds, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    begin = monotonic()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        assert monotonic() - begin < SOON


@pytest.mark.parametrize("accelerated", PLACEMENTS)
@pytest.mark.parametrize("run", [_plainly, _ort_values, _bound])
def test_a_run_ends_and_what_was_under_way_is_named(accelerated: tuple[str, ...], run: Callable[..., Any]) -> None:
    expected = plain(LOOP).run(None, SHORT)
    with cut(LOOP, accelerated, overlap=False) as session:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt) as pressed, pressed_after(0.1):
                run(session, LONG)
            (note,) = pressed.value.__notes__
            assert "Ctrl-C came during partition" in note
            assert "loop" in note or "ops" in note
            if session._executor is not None:
                assert not session._executor.frame.arrays
            assert_same([np.asarray(made) for made in session.run(None, SHORT)], expected)
            assert run(session, SHORT)
    assert signal.set_wakeup_fd(-1) == -1


CHILD = """
import sys
import numpy as np
from tests.runtime.models import cut
from tests.runtime.test_interrupts import LONG, LOOP, PLACEMENTS, SHORT

with cut(LOOP, PLACEMENTS[int(sys.argv[1])]) as session:
    session.run(None, SHORT)
    print("ready", flush=True)
    try:
        session.run(None, LONG)
    except KeyboardInterrupt as pressed:
        print("pressed", *pressed.__notes__, flush=True)
        print("again", session.run(None, SHORT)[0].shape, flush=True)
"""


@pytest.mark.parametrize("placement", range(2))
def test_a_real_ctrl_c(placement: int) -> None:
    """As a shell sends it."""
    command = [sys.executable, "-c", CHILD, str(placement)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        sleep(0.2)
        child.send_signal(signal.SIGINT)
        told, _ = child.communicate(timeout=SOON)
    assert child.returncode == 0
    first, again = told.splitlines()
    assert first.startswith("pressed Ctrl-C came during partition 0 on")
    assert again == "again (4,)"


def test_runs_of_other_threads_go_on() -> None:
    with cut(LOOP, ()) as session:
        done: list[Any] = []
        other = threading.Thread(target=lambda: done.append(session.run(None, feed(300_000))))
        other.start()
        with pytest.raises(KeyboardInterrupt), pressed_after(0.05):
            session.run(None, LONG)
        other.join(SOON)
        assert len(done) == 1


def test_a_program_that_handles_ctrl_c_itself_is_left_to_it() -> None:
    heard: list[int] = []
    earlier = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with cut(LOOP, ()) as session, pressed_after(0.02):
            session.run(None, feed(500_000))
            while not heard:
                sleep(0.001)
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert heard == [signal.SIGINT]


def test_who_had_the_wakeup_descriptor_hears_of_signals_that_came_in_a_run() -> None:
    """As asyncio, which would not call its handlers without."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    earlier = signal.signal(signal.SIGUSR1, lambda *_: None)
    assert signal.set_wakeup_fd(write) == -1
    try:
        with cut(LOOP, ()) as session:
            timer = threading.Timer(0.02, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
            timer.start()
            session.run(None, feed(500_000))
            timer.join()
        end = monotonic() + SOON
        heard = b""
        while not heard and monotonic() < end:
            sleep(0.001)
            try:
                heard = os.read(read, 10)
            except BlockingIOError:
                continue
        assert heard == bytes([signal.SIGUSR1])
    finally:
        assert signal.set_wakeup_fd(-1) == write
        signal.signal(signal.SIGUSR1, earlier)
        os.close(read)
        os.close(write)


def test_a_ctrl_c_that_comes_late_ends_no_later_run() -> None:
    """Pressed at every moment of short runs: each press is one ``KeyboardInterrupt``, and no run fails otherwise."""
    presses = 100
    with cut(LOOP, ()) as session:
        seen, runs = 0, 0

        def press() -> None:
            for turn in range(presses):
                while seen < turn:
                    sleep(0)
                before = runs
                while runs == before:  # then the loop that waits for it goes on
                    sleep(0)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        end = monotonic() + SOON
        while seen < presses and monotonic() < end:
            try:
                while True:
                    session.run(None, SHORT)
                    runs += 1
            except KeyboardInterrupt:
                seen += 1
        presser.join(SOON)
    assert seen == presses


TOTALS = model("""totals (float[4] x, float[4] one, float[M] two) => (float[4] one_out, float[N] two_out, float[4] y) {
    [a] n = Neg(x) [b] one_out = Add(one, n) [c] two_out = Concat <axis = 0> (two, n) [d] y = Exp(one_out)
}""")
STATES = {"one": "one_out", "two": "two_out"}


def test_ctrl_c_at_any_line_of_a_run_leaves_states_as_they_were_or_as_they_are_after_it() -> None:
    """All of them alike; and the next run works."""
    fed = {"x": np.ones(4, np.float32)}
    pins = ["node:a=cpu", "node:b=cuda", "node:c=cuda", "node:d=cpu"]
    planned = hetpart.partition(TOTALS, hardware="emulated", shape="M=?", state=STATES, pin=pins)
    with planned.session(emulate=True, threads=1, overlap=False) as session:
        places, runs = 0, 0
        while _interrupted(lambda: session.run(None, fed), places):
            places += 1
            one, two = session.state()["one"], session.state()["two"]
            assert one[0] in (-runs, -runs - 1)
            runs = round(-one[0])
            assert len(two) == 4 * runs
            (y,) = session.run(None, fed)
            runs += 1
            np.testing.assert_allclose(y, np.exp(np.full(4, -runs, np.float32)), rtol=1e-5)
            if runs > 20:
                session.reset_state()
                runs = 0
    assert places > 50
    assert signal.set_wakeup_fd(-1) == -1


def _interrupted(call: Callable[[], Any], place: int) -> bool:
    """Whether ``call`` was interrupted at the line of this number that its thread came to: else it came to fewer."""
    lines, folder = count(), str(Path(runtime.__file__).parent)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        # Python looks for signals before it leaves a block of `with`, and not again until its lock is let go.
        counts = event == "line" and name.startswith(folder) and not _line(frame).startswith("with ")
        if counts and next(lines) == place:
            raise KeyboardInterrupt
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(earlier)
    return False


def _line(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


@pytest.mark.parametrize("accelerated", PLACEMENTS)
def test_a_run_that_its_options_end_says_so(accelerated: tuple[str, ...]) -> None:
    ended = onnxruntime.RunOptions()
    ended.terminate = True
    with cut(LOOP, accelerated) as session:
        with pytest.raises(hetpart.ExecutionError) as failed:
            session.run(None, SHORT, ended)
        assert "run_options.terminate" in (failed.value.hint or "")
