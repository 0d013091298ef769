"""From the cuts at a price to the best placement that truly fits: explore once, then settle the promising ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.branches import branches, host_seconds
from hetpart.partitioner.bounds.by_passage import by_passage
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.exact import AIM, AIM_WITH_MOMENTS, MOST_GROUPS, Relaxation
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.scoring import Scored, Scorer, forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.baselines import all_accelerator
from hetpart.partitioner.search.candidates import Candidates
from hetpart.partitioner.search.enumerated import enumerated
from hetpart.partitioner.search.halves import Halves
from hetpart.partitioner.search.large import LARGE_OPS, TRIED_OPS, placed
from hetpart.partitioner.search.numbers import Numbers
from hetpart.partitioner.search.optimum import Optimum, by_borders
from hetpart.partitioner.search.passages import Passages
from hetpart.partitioner.search.squeeze import squeezed
from hetpart.partitioner.search.stretch import longest_stretches
from hetpart.partitioner.search.windows import Windows

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.branches import Branch
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import PlacementProblem

SMALL_GROUPS = 256
"""Up to which a program is solved whatever it says with parts of groups allowed."""


def _by_branches(run: Candidates, within: PlacementProblem, search: PriceSearch, best: Scored) -> Optimum:
    """``best``, or what the exact programs find that is better, with the bound on every branch."""
    bounds, start, by_moments = [host_seconds(within)], best, False
    left = branches(within)
    for count, branch in enumerate(left):
        # One that takes long leaves the others their share: the bound is the least of all.
        clock = Clock.of(run.clock.left / (len(left) - count))
        prove = _counted if branch.counted else _proven
        best, bound, solved = prove(run, branch, search, best, clock)
        bounds.append(bound)
        by_moments |= solved
    bound = max(search.bound, min(bounds))
    best = best if best is start else run.finished(best, bound)
    return Optimum(best, bound, by_moments=by_moments)


def _counted(
    run: Candidates, branch: Branch, search: PriceSearch, best: Scored, clock: Clock
) -> tuple[Scored, float, bool]:
    """As ``_proven``, number of partitions by number where that tells more."""
    windows = Windows.of(run.scorer, run.wiring, all_accelerator(run.wiring.problem), clock.expired)
    best, bound, settled = Numbers(run, search, clock, windows).proven(best)
    if settled:
        return best, bound, True
    best, by_rows, solved = _proven(run, branch, search, best, clock, bound)
    return best, max(bound, by_rows), solved


def _proven(
    run: Candidates, branch: Branch, search: PriceSearch, best: Scored, clock: Clock, least: float = -np.inf
) -> tuple[Scored, float, bool]:
    """``best`` or better, the bound of ``branch``, and whether a program was small enough to be solved for it.

    A program that says less than ``least`` with parts of groups allowed is not solved, unless it is small: whole
    groups may say much more, as of the updates of a training step.
    """
    if branch.problem is not run.wiring.problem:
        search = search_price(branch.problem, CutNetwork.of(branch.problem))
        if search.bound >= best.cost * (1 - AIM):
            return best, search.bound, False
    passages = Passages(run.scorer, run.settled, best)
    passed, best = passages.bounded(branch.passages(branch.problem), search, clock.expired), passages.best
    relaxation = Relaxation.of(branch.problem, search.price, search.bound, clock, branch.rows)
    if passages.settled or relaxation is None:
        return best, passed, passed > search.bound
    least = max(least, passages.tells)
    if least > relaxation.bound and (relaxation.program.groups > SMALL_GROUPS or passed > search.bound):
        relaxation.relaxed()
        if relaxation.bound < least:
            return best, max(passed, relaxation.bound), True
    best = _halved(run, branch, relaxation, best)
    met = relaxation.tighten(best, run.scorer.score)
    found = run.nearest([best, *met, *(run.trimmed(candidate) for candidate in met[-1:])])
    if met and not relaxation.proves(found):
        if relaxation.may_be_fitted(found):
            met += relaxation.fitted(met[-1], run.scorer.score)
        found = run.nearest([found, *(run.settled(candidate) for candidate in run.promising(met))])
    met = relaxation.in_parts(branch.parts, found, run.scorer.score)
    return run.nearest([found, *met]), max(passed, relaxation.bound), True


def _halved(run: Candidates, branch: Branch, relaxation: Relaxation, best: Scored) -> Scored:
    return Halves(run, run.scorer.score).proven(relaxation, best, branch.stages)[0] if branch.stages else best


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
    exact = enumerated(scorer, within, clock.expired)
    if exact is not None:
        return exact
    fallback = scorer.score(forced_placement(problem))
    known = [*first, *(scorer.score(placement) for placement in search.met), fallback, *baselines.values()]
    average = _average_price(scorer.score(search.met[1]), fallback)
    run = Candidates.of(scorer, within, search.price, average, clock)
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
    found = _by_branches(run, within, search, best)
    found = _passed(run, found, within, search) if problem.session_bytes[ACCELERATOR] else found
    return by_borders(found, within, search, clock)


def _passed(run: Candidates, found: Optimum, within: PlacementProblem, search: PriceSearch) -> Optimum:
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
