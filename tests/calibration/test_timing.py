from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from hetpart.calibration import timing
from hetpart.calibration.families import FAMILIES
from hetpart.calibration.probes import FEW, KINDS, LONG, MANY, MIXED, OVERHEADS, SHORT, TWIN
from hetpart.calibration.readings import Readings
from hetpart.calibration.samples import Samples, Taken, TakenByKernels, named
from hetpart.calibration.timing import Buffers, Manner, Probe, Times
from hetpart.rates import Starts


def test_of_what_chance_decides_a_quarter_counts_and_of_others_the_least():
    by_chance, others = Times(by_chance=True), Times()
    for seconds in (9.0, 1.0, 4.0, 5.0, 3.0, 8.0, 7.0, 6.0):
        by_chance.add(seconds)
        others.add(seconds)
    assert (by_chance.seconds, others.seconds) == (4.0, 1.0)
    assert Times().seconds == float("inf")


def test_what_cold_code_takes_is_told_from_what_cold_nodes_take():
    """64 kernels of one kind, and 23 and 25 that all differ, each beside a session of one."""
    probes = {named(key): Taken(streamed=0.0, cool=cool, warm=warm, far=far) for key, warm, cool, far in (
        (TWIN, 2.0, 3.0, 20.0), (LONG, 12.0, 13.0 + 63 * 0.25, 30.0 + 63 * 0.5),
        (MIXED, 7.0, 8.0 + 22 * 0.75, 25.0 + 22 * 1.5), (KINDS, 9.0, 10.0 + 24 * 1.25, 27.0 + 24 * 3.5),
    )}  # fmt: skip
    shorts = {named(SHORT): TakenByKernels({"Relu": 5.0}, {"Relu": 1.0})}
    samples = Samples(1, probes, shorts, 0.0, 1.0)
    assert astuple(samples.cold) == pytest.approx((0.5, 1.0, 2.0))
    assert astuple(samples.cool) == pytest.approx((0.25, 0.5, 1.0))
    assert samples.filled_seconds == pytest.approx(5.0 - 1.0 - 0.25 - 0.5)
    warm = {key: replace(taken, far=taken.warm, cool=taken.warm) for key, taken in probes.items()}
    assert replace(samples, probes=warm).cold == replace(samples, probes=warm).cool == Starts()


def test_what_cold_operands_take_is_what_many_take_longer_than_few() -> None:
    """32 more of them, whose code and whose session are as cold."""
    probes = {named(key): Taken(0.0, 0.0, warm, far) for key, warm, far in ((FEW, 2.0, 20.0), (MANY, 5.0, 39.0))}
    assert Samples(1, probes, {}, 0.0, 1.0).cold_operand_seconds == pytest.approx(0.5)


def test_the_least_lookup_takes_what_starting_a_kernel_does():
    """What it lacks of that was taken off for operands, and lacks of every other lookup too."""
    family = FAMILIES["gather"]
    taken = {("gather", sizes): 8 * (0.05e-6 if sizes[0] == 1 else 5e-6) for sizes in family.points()}
    short = {("short", ()): 1e-6, ("twin", ()): 0.2e-6, ("long", ()): 1e-6 + 63 * 0.2e-6}
    idle = {("few", ()): 1e-6, ("many", ()): 1e-6}
    table = Readings({**taken, **short, **idle}, {}, 0.0).table("gather")
    assert table.at((1, 16, 2**14)) == pytest.approx(0.2e-6, rel=1e-3)
    assert table.at((128, 16, 2**14)) == pytest.approx(5.15e-6, rel=1e-3)


def test_far_is_behind_a_flush_and_a_run_of_another_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would hold what fetching the runtime's own code takes, which a model's first nodes pay for all."""
    events: list[str] = []
    with Buffers.of(2**12, 2**16) as buffers:
        before = Probe(OVERHEADS[SHORT](), buffers, 1)
        probe = Probe(OVERHEADS[TWIN](), buffers, 1, before=before, manner=Manner(flushed=True))
        monkeypatch.setattr(probe, "_flush", lambda: events.append("flush"))
        monkeypatch.setattr(before, "run", lambda: events.append("another"))
        monkeypatch.setattr(probe, "_timed", lambda: events.append("run") or 1.0)
        probe.sample()
    assert events[:3] == ["flush", "another", "run"]


def test_all_that_a_cores_own_caches_hold_is_read_over_before_a_cool_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "cache_bytes", {2: 3 * 2**20}.__getitem__)
    with Buffers.of(2**12, 2**16) as buffers:
        assert buffers.other.nbytes == 6 * 2**20
