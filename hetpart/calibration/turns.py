"""Probes take turns while the machine is quiet, so that what else it does meets all of them alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetpart.calibration.timing import Probe

FEWEST, ENOUGH, ENOUGH_SECONDS = 4, 16, 0.1
"""Samples of a probe that are taken while it is quiet; fewer than enough where they take longer together."""
DISTURBED, DISTURBED_TOGETHER = 1.12, 1.35
"""A kernel that takes this times its best was disturbed: another tenant on the same core halves its rate. Threads that
work together differ more, for they wait for each other."""
PATIENCE = 3e-3
"""Seconds to wait for quiet."""
PRACTICE = 2000
"""Runs of a short kernel that show its best time."""


class Quiet:
    """Tells whether other work slows the processor now: by a short kernel whose best time is known."""

    def __init__(self, probe: Probe, threads: int) -> None:
        self._probe = probe
        self.limit = DISTURBED if threads == 1 else DISTURBED_TOGETHER
        self.best = inf
        self.asked = self.heard = 0
        for _ in range(PRACTICE):
            self.now()

    def now(self) -> bool:
        """Whether the kernel takes hardly longer than its best time."""
        started = perf_counter()
        self._probe.run()
        seconds = perf_counter() - started
        self.best = min(self.best, seconds)
        quiet = seconds <= self.limit * self.best
        self.asked, self.heard = self.asked + 1, self.heard + quiet
        return quiet

    @property
    def share(self) -> float:
        """Of the times it was asked, how often it was quiet."""
        return self.heard / self.asked


@dataclass(slots=True)
class Turns:
    """Samplers that take turns while it is quiet for them."""

    samplers: Sequence[Callable[[], object]]
    quiet: Quiet
    wanted: list[int] = field(default_factory=list[int])
    taken: list[int] = field(default_factory=list[int])
    best: float = inf
    """Of the quiet kernel, when ``taken`` began to count."""
    stepped: float = 0.0
    """When the last was sampled."""
    _next: int = 0

    def begin(self) -> None:
        """Call each once in any case."""
        self.wanted = [_wanted(sample) for sample in self.samplers]
        self.taken = [0] * len(self.samplers)
        self.best, self.stepped = self.quiet.best, perf_counter()

    @property
    def progress(self) -> float:
        """Share of what is wanted."""
        return sum(self.taken) / sum(self.wanted)

    def step(self, *, counts: bool) -> None:
        """Call the next that was not called often enough; ``counts``: it is quiet."""
        if self.quiet.best * self.quiet.limit < self.best:
            self.best, self.taken = self.quiet.best, [0] * len(self.samplers)  # it had never been quiet before
        while self.taken[self._next] >= self.wanted[self._next]:
            self._next = (self._next + 1) % len(self.samplers)
        self.samplers[self._next]()
        self.taken[self._next] += counts
        self._next = (self._next + 1) % len(self.samplers)
        self.stepped = perf_counter()


def take_turns(groups: Sequence[Turns], end: float) -> None:
    """Sample every group until each was sampled often enough while it was quiet for it, or the clock shows ``end``.

    The one that lacks most comes first. One for which it is not quiet for long is sampled nonetheless, also where
    it is quiet for others: the least time counts, and such a sample may have been undisturbed.
    """
    for group in groups:
        group.begin()
    while perf_counter() < end and (left := [group for group in groups if group.progress < 1]):
        for group in sorted(left, key=lambda group: group.progress):
            quiet = group.quiet.now()
            if quiet or perf_counter() - group.stepped > PATIENCE:
                group.step(counts=quiet)
                break


def _wanted(sample: Callable[[], object]) -> int:
    """How often to sample what takes as long as this first time."""
    started = perf_counter()
    sample()
    return max(FEWEST, min(ENOUGH, round(ENOUGH_SECONDS / (perf_counter() - started))))
