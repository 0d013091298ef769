"""From the cuts at a price to the best placement that truly fits: explore once, then settle the promising ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.branches import branches, host_seconds
from hetpart.partitioner.bounds.by_passage import by_passage
from hetpart.partitioner.bounds.exact import AIM, AIM_WITH_MOMENTS, MOST_GROUPS, Clock, Relaxation
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.scoring import Scored, Scorer, forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.baselines import all_accelerator
from hetpart.partitioner.search.explore import Outlook, explore, limit_of
from hetpart.partitioner.search.halves import Halves
from hetpart.partitioner.search.large import LARGE_OPS, TRIED_OPS, placed
from hetpart.partitioner.search.numbers import Numbers
from hetpart.partitioner.search.optimum import Optimum, by_borders
from hetpart.partitioner.search.parts import Parts
from hetpart.partitioner.search.passages import Passages
from hetpart.partitioner.search.polish import at_the_border, flipped, merged, nudged
from hetpart.partitioner.search.pressure import Pressure, levels, steered
from hetpart.partitioner.search.refine import Effort, improve
from hetpart.partitioner.search.repair import repaired
from hetpart.partitioner.search.squeeze import squeezed
from hetpart.partitioner.search.stretch import longest_stretches

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.branches import Branch
    from hetpart.partitioner.bounds.price import PriceSearch
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
MOST_STEPS = 5
"""Steps one candidate is given."""
SMALL_GROUPS = 256
"""Up to which a program is solved whatever it says with parts of groups allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    scorer: Scorer
    wiring: Wiring
    price: float
    """Seconds a byte is worth while searching."""
    exchange: float
    """Seconds a byte over the budget is held against a candidate."""
    clock: Clock
    parts: Parts | None
    """Parts partitions where each takes bytes; nothing where they take none."""

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
        left = TRIMMED_OPS // max(1, self.scorer.problem.ops)
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

    def proven(self, within: PlacementProblem, search: PriceSearch, best: Scored) -> Optimum:
        """``best``, or what the exact programs find that is better, with the bound on every branch."""
        bounds, start, by_moments = [host_seconds(within)], best, False
        left = branches(within)
        for count, branch in enumerate(left):
            # One that takes long leaves the others their share: the bound is the least of all.
            clock = Clock.of(self.clock.left / (len(left) - count))
            prove = self._counted if branch.counted else self._proven
            best, bound, solved = prove(branch, search, best, clock)
            bounds.append(bound)
            by_moments |= solved
        bound = max(search.bound, min(bounds))
        best = best if best is start else self.finished(best, bound)
        return Optimum(best, bound, by_moments=by_moments)

    def _counted(self, branch: Branch, search: PriceSearch, best: Scored, clock: Clock) -> tuple[Scored, float, bool]:
        """As ``_proven``, number of partitions by number where that tells more."""
        assert self.parts is not None
        numbers = Numbers(self.scorer, self.wiring.problem, search, self.trimmed, clock, self.parts)
        best, bound, settled = numbers.proven(best)
        if settled:
            return best, bound, True
        best, by_rows, solved = self._proven(branch, search, best, clock, bound)
        return best, max(bound, by_rows), solved

    def _proven(
        self, branch: Branch, search: PriceSearch, best: Scored, clock: Clock, least: float = -np.inf
    ) -> tuple[Scored, float, bool]:
        """``best`` or better, the bound of ``branch``, and whether a program was small enough to be solved for it.

        A program that says less than ``least`` with parts of groups allowed is not solved, unless it is small: whole
        groups may say much more, as of the updates of a training step.
        """
        if branch.problem is not self.wiring.problem:
            search = search_price(branch.problem, CutNetwork.of(branch.problem))
            if search.bound >= best.cost * (1 - AIM):
                return best, search.bound, False
        passages = Passages(self.scorer, self.settled, best)
        passed, best = passages.bounded(branch.passages(branch.problem), search, clock.expired), passages.best
        relaxation = Relaxation.of(branch.problem, search.price, search.bound, clock, branch.rows)
        if passages.settled or relaxation is None:
            return best, passed, passed > search.bound
        least = max(least, passages.tells)
        if least > relaxation.bound and (relaxation.program.groups > SMALL_GROUPS or passed > search.bound):
            relaxation.relaxed(self.scorer.score)
            if relaxation.bound < least:
                return best, max(passed, relaxation.bound), True
        best = Halves(self.scorer, self.promising, self.trimmed, self.settled).proven(relaxation, branch.stages, best)
        met = relaxation.tighten(best, self.scorer.score)
        found = self.nearest([best, *met, *(self.trimmed(candidate) for candidate in met[-1:])])
        if met and not relaxation.proves(found):
            if relaxation.may_be_fitted(found):
                met += relaxation.fitted(relaxation.program.budget - met[-1].excess, self.scorer.score)
            found = self.nearest([found, *(self.settled(candidate) for candidate in self.promising(met))])
        met = relaxation.in_parts(branch.parts, found, self.scorer.score)
        return self.nearest([found, *met]), max(passed, relaxation.bound), True

    def promising(self, known: list[Scored]) -> list[Scored]:
        """The best of ``known`` that are not nearly the same."""
        taken: list[Scored] = []
        for found in sorted(known, key=self.promise):
            apart = (int((found.placement != other.placement).sum()) for other in taken)
            if all(ops > self.scorer.problem.ops * NEARLY_SAME for ops in apart):
                taken.append(found)
        return taken[: self._affordable(MOST_SETTLED)]


def optimise(
    scorer: Scorer,
    search: PriceSearch,
    baselines: dict[str, Scored],
    clock: Clock,
) -> Optimum:
    """The best placement found and the best bound. It breaks a budget only if nothing found does not.

    Args:
        scorer: Of the problem.
        search: Its bound and the cuts met on the way.
        baselines: Placements to beat; the best are starts.
        clock: When it is up the best so far is returned.
    """
    problem = scorer.problem
    within = without_misfits(problem)
    cuts_cost = bool(problem.session_seconds.any() or problem.session_bytes.any())
    first = [placed(scorer, within, search, clock.expired)] if problem.ops >= TRIED_OPS else []
    best = min((*first, *baselines.values()), key=lambda found: found.fit_rank)
    if best.fits and (problem.ops >= LARGE_OPS or gap(best.total_seconds, search.bound) <= AIM):
        return Optimum(best, search.bound, by_moments=False)
    fallback = scorer.score(forced_placement(problem))
    known = [*first, *(scorer.score(placement) for placement in search.met), fallback, *baselines.values()]
    average = _average_price(scorer.score(search.met[1]), fallback)
    wiring, price = Wiring.of(within), search.price or average
    parts = Parts.of(scorer, wiring, price) if problem.session_bytes[ACCELERATOR] else None
    run = _Search(scorer, wiring, price, max(search.price, average), clock, parts)
    for wanted in (search.met[1], all_accelerator(within)) if cuts_cost else ():
        known += longest_stretches(scorer, run.wiring, wanted, clock.expired)
    known = [found for found in known if np.isfinite(within.cost(found.placement))]
    known += run.explored(scorer.score(all_accelerator(within)), [run.nearest(known)])
    # Where cuts cost nothing and the host holds everything, the programs end where settling and last touches would.
    programmed = problem.budgets[HOST] == NO_BUDGET and not cuts_cost and len(run.wiring.groups) <= MOST_GROUPS
    known += [] if programmed and run.nearest(known).fits else map(run.settled, run.promising(known))
    best = run.nearest(known)
    if not best.fits:
        best = squeezed(scorer, run.wiring, best)
    if not best.fits:
        return Optimum(_least(scorer, fallback, baselines), search.bound, by_moments=False)
    best = best if programmed else run.finished(best, search.bound)
    if gap(best.cost, search.bound) <= AIM:
        return Optimum(best, search.bound, by_moments=False)
    found = run.proven(within, search, best)
    found = _passed(run, found, within, search) if problem.session_bytes[ACCELERATOR] else found
    return by_borders(found, within, search, clock)


def _passed(run: _Search, found: Optimum, within: PlacementProblem, search: PriceSearch) -> Optimum:
    """``found`` with what passages tell of any number of sessions, where it is not yet near to its bound."""
    if gap(found.found.cost, found.bound) <= AIM_WITH_MOMENTS:
        return found
    passages = Passages(run.scorer, run.settled, found.found)
    bound = max(found.bound, passages.bounded(by_passage(within), search, run.clock.expired))
    best = found.found if passages.best is found.found else run.finished(passages.best, bound)
    return Optimum(best, bound, by_moments=True)


def _least(scorer: Scorer, fallback: Scored, baselines: dict[str, Scored]) -> Scored:
    """The placement nearest to the budgets of those that are found whatever the budgets are.

    Its peak is a budget that will do: asked again with it, the search meets this placement again.
    """
    known = [squeezed(scorer, Wiring.of(scorer.problem), fallback), baselines["all-cpu"], baselines["all-accelerator"]]
    return min(known, key=lambda found: found.fit_rank)


def _average_price(free: Scored, fallback: Scored) -> float:
    """Seconds a byte saves from all it can be to nothing at all."""
    return max(0.0, (fallback.cost - free.cost) / max(1, int(free.usage.peak[ACCELERATOR])))
