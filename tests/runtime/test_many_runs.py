"""Many runs, one after another and at once: each has its own answer, and nothing is left behind."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import numpy as np
import psutil
import pytest

from hetpart.errors import ExecutionError, InvalidFeedError
from tests.runtime.models import assert_same, cut, model, plain

THREADS, RUNS = 8, 40
LARGE = 100_000
MIXED = model("""mixed (float[100] x) => (float[100] z, float[N] u, string[100] t, int64[1,M] at) {
    [neg] a = Neg(x)
    [exp] b = Exp(a)
    [add] z = Add(a, b)
    [unique] u = Unique(z)
    [text] t = Cast<to=8>(b)
    [found] at = NonZero(x)
}""")
PLACEMENTS = [(), ("exp", "unique"), ("neg", "add", "text"), ("neg", "exp", "add", "unique", "text", "found")]


@pytest.mark.parametrize("accelerated", PLACEMENTS)
def test_threads_that_share_a_session_get_their_own_answers(accelerated: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal(100).round(1).astype(np.float32)} for _ in range(THREADS)]
    uncut = plain(MIXED)
    expected = [uncut.run(None, feed) for feed in feeds]
    start = Barrier(THREADS)
    with cut(MIXED, accelerated) as session, ThreadPoolExecutor(THREADS) as pool:

        def answers(thread: int) -> list[list[np.ndarray]]:
            start.wait()
            return [session.run(None, feeds[thread]) for _ in range(RUNS)]

        for thread, results in enumerate(pool.map(answers, range(THREADS))):
            for result in results:
                assert_same(result, expected[thread])


def test_closing_waits_for_the_run_under_way() -> None:
    x = np.ones(100, np.float32)
    session = cut(MIXED, ("exp",))
    expected = session.run(None, {"x": x})
    seen: list[str] = []
    started = Event()

    def run_until_closed() -> None:
        while True:
            try:
                assert_same(session.run(None, {"x": x}), expected)
            except ExecutionError as closed:
                seen.append(str(closed))
                return
            started.set()

    threads = [Thread(target=run_until_closed) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    session.close()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all("closed" in text for text in seen)


HEAVY = model(f"""heavy (float[{LARGE}] x, int64[1] at) => (float[{LARGE}] z, float[N] u, float[1] one) {{
    [neg] a = Neg(x)
    [exp] b = Exp(a)
    [unique] u = Unique(b)
    [pick] one = Gather(a, at)
    [add] z = Add(a, b)
}}""")
HEAVY_PLACEMENTS = [(), ("exp", "unique"), ("neg", "add", "pick")]
HEAVY_FEED = {"x": np.zeros(LARGE, np.float32), "at": np.array([1])}


@pytest.mark.parametrize("accelerated", HEAVY_PLACEMENTS)
def test_memory_stays_flat_over_runs_and_errors(accelerated: tuple[str, ...]) -> None:
    """One value of one run in three, left behind, is 12 MB here."""
    process = psutil.Process()
    with cut(HEAVY, accelerated) as session:

        def some(runs: int) -> None:
            for _ in range(runs):
                session.run(None, HEAVY_FEED)
                with pytest.raises(ExecutionError):
                    session.run(None, HEAVY_FEED | {"at": np.array([LARGE])})
                with pytest.raises(InvalidFeedError):
                    session.run(None, {"x": HEAVY_FEED["x"]})

        some(20)
        gc.collect()
        tracemalloc.start()
        before, resident = tracemalloc.take_snapshot(), process.memory_info().rss
        some(90)
        gc.collect()
        after, grown = tracemalloc.take_snapshot(), process.memory_info().rss - resident
        tracemalloc.stop()
    traced = sum(difference.size_diff for difference in after.compare_to(before, "filename"))
    assert traced < 200_000
    assert grown < 10_000_000


def test_sessions_that_are_closed_give_their_memory_back() -> None:
    proto = model("g (float[1000000] x) => (float[1000000] z) { [a] a = Neg(x) [b] b = Exp(a) [c] z = Abs(b) }")
    process, x = psutil.Process(), np.ones(1_000_000, np.float32)

    def opened_and_closed(times: int) -> int:
        for _ in range(times):
            with cut(proto, ("b",)) as session:
                session.run(None, {"x": x})
        gc.collect()
        return process.memory_info().rss

    before = opened_and_closed(4)
    assert opened_and_closed(20) - before < 20_000_000
