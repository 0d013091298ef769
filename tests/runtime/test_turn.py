"""A run asked for inside a run of the same session, in its thread: it is refused, for it would wait for itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hetpart
from hetpart.errors import ExecutionError
from hetpart.runtime.executor import Executor
from hetpart.runtime.record import RunRecord
from tests.runtime.models import cut, model, placed

MODEL = model("""d (float[4] x, float[4] past_a) => (float[4] y, float[4] present_a) {
    [a] present_a = Add(past_a, x) [b] y = Neg(present_a)
}""")
FEED = {"x": np.ones(4, np.float32)}
STATE = {"past_a": "present_a"}
CALLS: dict[str, Callable[[hetpart.Session], Any]] = {
    "run": lambda one: one.run(None, FEED),
    "to OrtValues": lambda one: one.run_with_ort_values(None, FEED),
    "read a state": lambda one: one.state()["past_a"],
    "set a state": lambda one: one.state().update(past_a=FEED["x"]),
    "reset": lambda one: one.reset_state(),
    "close": lambda one: one.close(),
    "leave": lambda one: one.__exit__(None, None, None),
}
SIGNAL = signal.SIGUSR1


class Asking(RunRecord):
    """Asks within every task, in the thread that does it: as a ``__del__`` or the handler of a signal would."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        super().__init__()
        self.ask, self.refused = ask, list[str]()

    def watched(self, do: Callable[[int], None], frame: Any) -> Callable[[int], None]:
        inner = super().watched(do, frame)

        def asked(task: int) -> None:
            inner(task)
            try:
                self.ask()
            except ExecutionError as error:
                self.refused.append(str(error))

        return asked


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("overlap", [False, True])
def test_what_would_wait_for_its_own_run_is_refused(overlap: bool, call: str) -> None:
    record = Asking(lambda: CALLS[call](session))
    bundle = placed(MODEL, ("b",)).bundle()
    with hetpart.Session(bundle, emulate=True, overlap=overlap, state=STATE, record=record) as session:
        (first,), (second,) = session.run(None, FEED), session.run(None, FEED)
        assert session.overlaps == overlap
        assert len(record.refused) == 2 * len(session.times()) > 0
        assert all("a run of it is under way in the same thread" in told for told in record.refused)
        np.testing.assert_array_equal([first, second], [-FEED["x"], -2 * FEED["x"]])


def test_the_end_of_later_runs_is_not_waited_for_inside_a_run() -> None:
    """They wait for it: in a session that is left there, too."""
    told = threading.Event()
    record = Asking(lambda: (session.run_async(None, FEED, lambda *_: told.set()), session.__exit__(None, None, None)))
    with hetpart.Session(placed(MODEL, ("b",)).bundle(), emulate=True, state=STATE, record=record) as session:
        session.run(None, FEED)
        record.ask = lambda: None
        assert told.wait(30)
    assert record.refused


def test_a_later_run_may_be_asked_for_inside_a_run() -> None:
    told, ended = list[Any](), threading.Event()

    def note(results: list[Any], _: object, error: str) -> None:
        told.append(results or error)
        ended.set()

    record = Asking(lambda: ended.is_set() or session.run_async(None, FEED | {"past_a": FEED["x"]}, note))
    bundle = placed(MODEL, ("a", "b")).bundle()
    with hetpart.Session(bundle, emulate=True, record=record) as session:
        session.run(None, FEED | {"past_a": FEED["x"]})
        assert ended.wait(30)
    assert not record.refused
    np.testing.assert_array_equal(told[0][0], -2 * FEED["x"])


@pytest.mark.parametrize("call", ["read a state", "set a state", "reset"])
def test_states_are_not_touched_before_an_interrupted_run_has_ended(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whose kernel may yet write to them, where Ctrl-C came twice: the next to have a turn waits for it."""
    with hetpart.Session(placed(MODEL, ("b",)).bundle(), emulate=True, overlap=True, state=STATE) as session:
        session.run(None, FEED)

        def late(_: Executor) -> None:
            monkeypatch.undo()
            session._states._put({"past_a": 5 * FEED["x"]})

        monkeypatch.setattr(Executor, "settle", late)
        made = CALLS[call](session)
        if call == "read a state":
            np.testing.assert_array_equal(made, 5 * FEED["x"])
        else:
            expected = FEED["x"] if call == "set a state" else 0 * FEED["x"]
            np.testing.assert_array_equal(session.state()["past_a"], expected)


LONG = model("""g (float[256,256] x) => (float[256,256] z) { [a] y = MatMul(x, x) [b] z = MatMul(y, x) }""")


@pytest.mark.parametrize("accelerated", [(), ("b",), ("a", "b")], ids=str)
def test_the_handler_of_a_signal_asks(accelerated: tuple[str, ...]) -> None:
    """As it comes: into a run or between two. A plan of one partition on the host answers, as ONNX Runtime does."""
    fed, heard = {"x": np.eye(256, dtype=np.float32)}, list[Any]()

    def handle(*_: object) -> None:
        try:
            heard.extend(session.run(None, fed))
        except ExecutionError as error:
            heard.append(error)

    earlier = signal.signal(SIGNAL, handle)
    try:
        with cut(LONG, accelerated) as session:
            (expected,) = session.run(None, fed)
            timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, SIGNAL))
            timer.start()
            while not heard:
                np.testing.assert_array_equal(session.run(None, fed)[0], expected)
            timer.join()
    finally:
        signal.signal(SIGNAL, earlier)
    (found,) = heard
    if isinstance(found, ExecutionError):
        assert accelerated
    else:
        np.testing.assert_array_equal(found, expected)
