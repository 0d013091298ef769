from __future__ import annotations

import pytest

from hetpart.calibration import timing
from hetpart.calibration.families import FAMILIES
from hetpart.calibration.probes import OVERHEADS, SHORT, TWIN
from hetpart.calibration.readings import Readings
from hetpart.calibration.timing import Buffers, Manner, Probe, Times


def test_of_what_chance_decides_a_quarter_counts_and_of_others_the_least():
    by_chance, others = Times(by_chance=True), Times()
    for seconds in (9.0, 1.0, 4.0, 5.0, 3.0, 8.0, 7.0, 6.0):
        by_chance.add(seconds)
        others.add(seconds)
    assert (by_chance.seconds, others.seconds) == (4.0, 1.0)
    assert Times().seconds == float("inf")


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
