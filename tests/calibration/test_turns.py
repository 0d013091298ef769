"""Which probes are sampled, where it is quiet for some and not for others: by a clock that the probes set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from hetpart.calibration import turns
from hetpart.calibration.turns import Turns, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLERS, SAMPLE_SECONDS, ASKING_SECONDS = 5, 0.004, 1e-5


@dataclass
class _Machine:
    """Its clock, and what was sampled on it."""

    seconds: float = 0.0
    calls: list[str] = field(default_factory=list[str])

    def clock(self) -> float:
        return self.seconds

    def sampler(self, name: str) -> Callable[[], object]:
        def sample() -> None:
            self.seconds += SAMPLE_SECONDS
            self.calls.append(name)

        return sample

    def group(self, name: str, *, quiet: bool) -> Turns:
        samplers = [self.sampler(f"{name}{i}") for i in range(SAMPLERS)]
        return Turns(samplers, cast("Any", _Always(self, quiet)))


@dataclass
class _Always:
    """Quiet, or not, whenever it is asked."""

    machine: _Machine
    quiet: bool
    limit: float = 1.0
    best: float = 1.0

    def now(self) -> bool:
        self.machine.seconds += ASKING_SECONDS
        return self.quiet


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> _Machine:
    found = _Machine()
    monkeypatch.setattr(turns, "perf_counter", found.clock)
    return found


def test_what_is_never_quiet_is_sampled_beside_what_is(machine: _Machine) -> None:
    disturbed, quiet = machine.group("disturbed", quiet=False), machine.group("quiet", quiet=True)
    take_turns([disturbed, quiet], 0.3)
    assert disturbed.progress == 0 < quiet.progress < 1, "the clock ends it"
    counts = {name: [machine.calls.count(f"{name}{i}") for i in range(SAMPLERS)] for name in ("disturbed", "quiet")}
    assert min(counts["disturbed"]) >= 5 <= min(counts["quiet"]), counts


def test_what_is_quiet_ends_when_all_was_sampled_often_enough(machine: _Machine) -> None:
    group = machine.group("quiet", quiet=True)
    take_turns([group], 60.0)
    assert group.progress == 1
    assert len(machine.calls) == SAMPLERS + sum(group.wanted)
    assert machine.seconds < 1


def test_what_was_never_quiet_waits_for_it_before_each_sample(machine: _Machine) -> None:
    group = machine.group("disturbed", quiet=False)
    take_turns([group], 0.3)
    assert len(machine.calls) == pytest.approx(0.3 / (SAMPLE_SECONDS + turns.PATIENCE), abs=SAMPLERS)
