"""Candidates made to fit, and improved step by step: explored under a price, parted, trimmed, settled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.exact import AIM
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.scoring import Scored, Scorer
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.explore import Outlook, explore, limit_of
from hetpart.partitioner.search.parts import Parts
from hetpart.partitioner.search.polish import at_the_border, flipped, merged, nudged
from hetpart.partitioner.search.pressure import Pressure, levels, steered
from hetpart.partitioner.search.refine import Effort, improve
from hetpart.partitioner.search.repair import repaired

if TYPE_CHECKING:
    from hetpart.partitioner.problem import PlacementProblem

EXPLORED = 2
"""Splits of the budget worth exploring."""
MOST_TIGHTENED = 3
"""Times a split is explored, with less room each time."""
MOST_SETTLED = 4
"""Candidates settled."""
OPS_AT_ONCE = 8000
"""Ops that one of these works on in all: large models get fewer times, and at least one."""
WORTHWHILE = 1e-4
"""Relative; a step that gains less is the last."""
NEARLY_SAME = 0.02
"""Placements that differ in fewer ops than this share are one candidate."""
MOST_REPAIRS = 24
MOST_TRIMMED = 8
TRIMMED_OPS = 400_000
"""Ops scored in taking groups off the border, all together."""
STREAMING_TAKES = 8
"""Times as long as others, placements that stream: they are cut in more and more pieces until what streams has room."""
MOST_STEPS = 5
"""Steps one candidate is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """How they are improved."""

    scorer: Scorer
    wiring: Wiring
    price: float
    """Seconds a byte is worth while searching."""
    exchange: float
    """Seconds a byte over the budget is held against a candidate."""
    clock: Clock
    parts: Parts | None
    """Parts partitions where each takes bytes; nothing where they take none."""

    @classmethod
    def of(cls, scorer: Scorer, within: PlacementProblem, price: float, average: float, clock: Clock) -> Candidates:
        """Of a problem.

        Args:
            scorer: Of the problem.
            within: The same, with what can fit nowhere shut out.
            price: Of a byte at the best bound; 0 where nothing binds.
            average: What a byte saves on average.
            clock: When it is up nothing more is improved.
        """
        wiring, worth = Wiring.of(within), price or average
        sessions = bool(scorer.problem.session_bytes[ACCELERATOR])
        parts = Parts.of(scorer, wiring, worth) if sessions else None
        return cls(scorer, wiring, worth, max(price, average), clock, parts)

    def _affordable(self, most: int) -> int:
        return max(1, min(most, OPS_AT_ONCE // max(1, self.scorer.problem.ops)))

    def view(self, pressure: Pressure) -> tuple[PlacementProblem, Wiring]:
        seen = steered(self.wiring.problem, pressure, self.exchange)
        return seen, self.wiring.seen(seen, pressure.of_op)

    def promise(self, found: Scored) -> tuple[float, int, bytes]:
        """Seconds, with every byte over the budgets paid for at the price; least first."""
        seconds, partitions, key = found.rank
        return seconds + self.exchange * found.excess, partitions, key

    def nearest(self, known: list[Scored]) -> Scored:
        """Least seconds of those that fit; else the one nearest to fitting."""
        return min(known, key=lambda found: found.fit_rank)

    def explored(self, whole: Scored, starts: list[Scored]) -> list[Scored]:
        """Improved placements under the most promising splits of the budget into weights and activations."""
        splits = [(pressure, Outlook.of(*self.view(pressure))) for pressure in levels(self.wiring.problem, whole)]
        found: list[Scored] = []
        for pressure, outlook in sorted(splits, key=lambda split: split[1].search.bound)[: self._affordable(EXPLORED)]:
            found += self._explored_until_fit(pressure, outlook, starts)
        return found

    def _explored_until_fit(self, pressure: Pressure, outlook: Outlook, starts: list[Scored]) -> list[Scored]:
        """Explored with less and less room, by what the cheapest placement found would still exceed."""
        found: list[Scored] = []
        for _ in range(self._affordable(MOST_TIGHTENED)):
            if self.clock.expired():
                break
            placements = explore(outlook, [start.placement for start in starts], Effort())
            fresh = [self.scorer.score(placement) for placement in placements]
            found += fresh
            if fresh[0].fits:
                break
            pressure = replace(pressure, reserve=pressure.reserve + fresh[0].excess)
            outlook = Outlook.of(*self.view(pressure))
        return found

    def repaired(self, start: Scored) -> Scored:
        """``start`` with groups taken off the accelerator until it fits."""
        if start.fits or self.clock.expired():
            return start
        _, wiring = self.view(Pressure.none(self.scorer.problem))
        return repaired(self.scorer, start, Ledger(wiring, start.placement), MOST_REPAIRS)

    def settled(self, start: Scored) -> Scored:
        """``start`` made to fit at once and made to fit after improvement, each then improved; the better of both."""
        found = self.nearest([self.climbed(self.repaired(start)), self.climbed(self.stepped(start))])
        return self.nearest([found, *self.parted(found)])

    def parted(self, whole: Scored) -> list[Scored]:
        """``whole`` in more partitions, improved with the room that those leave."""
        if self.parts is None or self.clock.expired():
            return []
        made = map(self.scorer.score, self.parts.parted(whole.placement))
        return [self.climbed(self.repaired(one)) for one in made]

    def trimmed(self, start: Scored) -> Scored:
        """``start`` with groups at the border taken off the accelerator until it fits: no new partitions come of it."""
        streams = self.scorer.problem.stands_for_weight is not None
        left = TRIMMED_OPS // max(1, self.scorer.problem.ops) // (STREAMING_TAKES if streams else 1)
        for _ in range(MOST_TRIMMED):
            moves = at_the_border(self.wiring, start.placement)
            left -= len(moves)
            if start.fits or left < 0 or self.clock.expired():
                break
            found = [self.scorer.score(flipped(self.wiring, start.placement, [move])) for move in moves]
            start = min(found, key=self.promise, default=start)
        return start

    def stepped(self, start: Scored) -> Scored:
        """``start`` improved under the pressure it truly has, then made to fit."""
        seen, wiring = self.view(Pressure.of(self.scorer.problem, start))
        ledger = Ledger(wiring, start.placement)
        improve(ledger, self.price, limit_of(seen), Effort())
        return self.repaired(self.scorer.score(ledger.placement()))

    def climbed(self, start: Scored) -> Scored:
        """``start`` improved step by step."""
        for _ in range(MOST_STEPS):
            found = start if self.clock.expired() else self.stepped(start)
            if found.fit_rank >= start.fit_rank:
                break
            gained = start.total_seconds - found.total_seconds
            start = found
            if start.fits and gained < start.total_seconds * WORTHWHILE:
                break
        return start

    def finished(self, best: Scored, bound: float) -> Scored:
        """``best`` after the last touches, unless ``bound`` says that there is nothing to gain."""
        if gap(best.total_seconds, bound) <= AIM:
            return best
        best = self.nearest([best, self.settled(merged(self.scorer, self.wiring, best))])
        return best if self.clock.expired() else nudged(self.scorer, self.wiring, best)

    def promising(self, known: list[Scored]) -> list[Scored]:
        """The best of ``known`` that are not nearly the same."""
        taken: list[Scored] = []
        for found in sorted(known, key=self.promise):
            apart = (int((found.placement != other.placement).sum()) for other in taken)
            if all(ops > self.scorer.problem.ops * NEARLY_SAME for ops in apart):
                taken.append(found)
        return taken[: self._affordable(MOST_SETTLED)]
