"""The best placement that can be found, and how far from the best possible it can be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.errors import InfeasibleError, InvalidOptionError
from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.price import PriceSearch
from hetpart.partitioner.problem import NO_BUDGET, NOTHING_KNOWN, Known, Placement, PlacementProblem
from hetpart.partitioner.scores.fixing import least_bytes, without_misfits
from hetpart.partitioner.scores.gap import gap, speaks_of
from hetpart.partitioner.scores.scoring import Scored, Scorer, forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.chance import fitted, random_placement
from hetpart.partitioner.search.optimise import optimise
from hetpart.partitioner.search.optimum import Optimum
from hetpart.partitioner.search.squeeze import squeezed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.cut import Cut
    from hetpart.partitioner.scores.liveness import Usage
    from hetpart.partitioner.scores.scoring import Packing

OPTIMAL = "optimal"
RANDOM = "random"
MOST_DEVICES = 2
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BaselineResult:
    """What another rule would have done at the same costs."""

    name: str
    placement: Placement
    cost: float
    total_seconds: float
    peak_bytes: int
    """On the accelerator."""
    fits: bool
    beyond: str = ""
    """Which limit on cuts it does not keep, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement, its cut and its certificate."""

    placement: Placement
    cut: Cut
    usage: Usage
    cost: float
    """Serial seconds that the bound speaks of."""
    total_seconds: float
    """``cost`` and the overhead of every session."""
    lower_bound: float
    """No legal placement of those that ``speaks_of`` names and that fit has a lower ``cost``."""
    bound_of_all: float
    """No legal placement that fits has, whether it streams weights or not."""
    gap: float
    """(cost − lower_bound) / cost."""
    price: float
    """Seconds one byte of accelerator memory is worth at the best bound."""
    baselines: tuple[BaselineResult, ...]
    chosen: str
    """``solver``, the name of the baseline that won, or the source that was asked for."""
    speaks_of: str
    """What no placement can be better than ``lower_bound`` in."""
    streamed: NDArray[np.bool_] | None = None
    """(W,) Weights that are copied to the accelerator in every run; None where none is."""


@dataclass(frozen=True, slots=True, eq=False)
class Shortage:
    """Why nothing fits."""

    device: int
    budget_bytes: int
    required_bytes: int
    """What ``placement`` takes of it. Of other devices it may take more than their budgets too."""
    ops: tuple[int, ...]
    """Ops that must run on the device, those that need the most bytes first."""
    placement: Placement
    """The one that lacks least."""


class NothingFitsError(InfeasibleError):
    """No placement, or not the one that was asked for, fits the budgets."""

    def __init__(self, message: str, shortage: Shortage, *, hint: str = "") -> None:
        super().__init__(message, required_bytes=shortage.required_bytes, hint=hint)
        self.shortage = shortage


def solve(
    problem: PlacementProblem,
    *,
    source: str | Placement = OPTIMAL,
    time_limit: float = 30.0,
    packing: Packing | None = None,
    known: Known = NOTHING_KNOWN,
) -> Solution:
    """The placement that ``source`` asks for, with its certificate.

    Args:
        problem: What to place. ``optimal`` and the baselines know two devices at most.
        source: ``optimal``, ``random:SEED``, the name of a baseline, or a placement.
        time_limit: Seconds after which ``optimal`` returns the best it has.
        packing: Lays out what a placement holds in real memory, where that can be more than what is alive in it.
        known: Starts for ``optimal``, and a bound.

    Raises:
        NothingFitsError: No placement fits the budgets, or the one asked for does not.
        InvalidOptionError: The source is unknown, or puts an op where it may not run.
    """
    _require_solvable(problem, source)
    clock = Clock.of(time_limit)
    scorer = Scorer.of(problem, packing)
    search, baselines = _CERTIFIED.get(len(problem.devices), _of_several)(scorer)
    if isinstance(source, str) and source == OPTIMAL:
        search = replace(search, bound=max(search.bound, known.lower_bound))
        starts = {f"{OPTIMAL} {number}": scorer.score(start) for number, start in enumerate(known.holding)}
        chosen, optimum = _best(scorer, search, baselines, starts, clock)
    else:
        chosen, found = _asked_for(scorer, source, baselines)
        optimum = Optimum(found, search.bound, by_moments=False)
    if not optimum.found.fits:
        raise _nothing_fits(scorer, optimum.found)
    return solution(chosen, optimum, search.price, baselines)


def _require_solvable(problem: PlacementProblem, source: str | Placement) -> None:
    known = not isinstance(source, str) or source.startswith(RANDOM)
    if len(problem.devices) > MOST_DEVICES and not known:
        raise InvalidOptionError(
            f"{len(problem.devices)} devices ({', '.join(problem.devices)}): {source!r} knows two so far",
            hint=f"name one accelerator, or say where every op runs: a file, or {RANDOM}:SEED",
        )
    homeless = np.flatnonzero(~problem.legal().any(axis=0)).tolist()
    if homeless:
        raise InvalidOptionError(f"{len(homeless)} ops may run on no device: ops {homeless[:5]}")


def _certified(scorer: Scorer) -> tuple[PriceSearch, dict[str, Scored]]:
    problem = scorer.problem
    baselines = {name: scorer.score(rule(problem)) for name, rule in BASELINES.items()}
    return search_with_sessions(without_misfits(problem)), baselines


def _host_only(scorer: Scorer) -> tuple[PriceSearch, dict[str, Scored]]:
    """One device leaves one placement."""
    only = np.zeros(scorer.problem.ops, np.int8)
    found = scorer.score(only)
    return PriceSearch(found.cost, 0.0, only, only, (only,)), dict.fromkeys(BASELINES, found)


def _of_several(scorer: Scorer) -> tuple[PriceSearch, dict[str, Scored]]:
    """No placement takes less than every op does on its fastest device."""
    least = float(scorer.problem.seconds.min(axis=0).sum())
    start = forced_placement(scorer.problem)
    return PriceSearch(least, 0.0, start, start, (start,)), {}


_CERTIFIED = {1: _host_only, MOST_DEVICES: _certified}
"""The bound and the baselines, by the number of devices."""


def _best(
    scorer: Scorer,
    search: PriceSearch,
    baselines: dict[str, Scored],
    starts: dict[str, Scored],
    clock: Clock,
) -> tuple[str, Optimum]:
    """The best of the solver's, its starts and the baselines that fit: modelled seconds, session overheads counted."""
    if len(scorer.problem.devices) == 1:
        return "solver", Optimum(scorer.score(search.below), search.bound, by_moments=False)
    optimum = optimise(scorer, search, {**baselines, **starts}, clock)
    rivals = {"solver": optimum.found, **baselines, **starts}
    name = min(rivals, key=lambda name: rivals[name].fit_rank)
    return "solver" if name in starts else name, replace(optimum, found=rivals[name])


def _asked_for(scorer: Scorer, source: str | Placement, baselines: dict[str, Scored]) -> tuple[str, Scored]:
    if not isinstance(source, str):
        return "given", scorer.score(_checked(scorer.problem, source))
    if source in baselines:
        return source, baselines[source]
    name, _, seed = source.partition(":")
    if name != RANDOM or not seed.isdecimal():
        raise InvalidOptionError(
            f"{source!r} is no placement source",
            hint=f"one of {OPTIMAL}, {RANDOM}:SEED, {', '.join(BASELINES)}, or a file",
        )
    return source, _drawn(scorer, int(seed))


def _drawn(scorer: Scorer, seed: int) -> Scored:
    """A random placement, made to fit."""
    if len(scorer.problem.devices) == 1:
        return scorer.score(np.zeros(scorer.problem.ops, np.int8))
    found = fitted(scorer, random_placement(scorer.problem, seed), seed)
    if found.fits or len(scorer.problem.devices) > MOST_DEVICES:
        return found
    return squeezed(scorer, Wiring.of(scorer.problem), found)


def _checked(problem: PlacementProblem, placement: Placement) -> Placement:
    if placement.shape != (problem.ops,):
        raise InvalidOptionError(f"the placement has {placement.size} ops, the model {problem.ops}")
    devices = len(problem.devices)
    known = (placement >= 0) & (placement < devices)
    legal = problem.legal()[np.where(known, placement, HOST), np.arange(problem.ops)] & known
    if not legal.all():
        wrong = np.flatnonzero(~legal).tolist()
        raise InvalidOptionError(f"the placement puts {len(wrong)} ops where they cannot run: ops {wrong[:5]}")
    return placement.astype(np.int8)


def _nothing_fits(scorer: Scorer, found: Scored) -> NothingFitsError:
    problem = scorer.problem
    limited = problem.budgets != NO_BUDGET
    excess = np.where(limited, found.usage.peak - problem.budgets, -1)
    device = int(excess.argmax())
    legal = problem.legal()
    forced = np.flatnonzero(legal[device] & (legal.sum(axis=0) == 1))
    there = forced[np.argsort(-least_bytes(problem)[forced], kind="stable")]
    required = int(found.usage.peak[device])
    shortage = Shortage(device, int(problem.budgets[device]), required, tuple(there.tolist()), found.placement)
    lacks = [(problem.devices[at], int(found.usage.peak[at]), int(problem.budgets[at])) for at in _short(excess)]
    return NothingFitsError(
        " and ".join(f"{name} needs {peak:,} bytes, its budget is {budget:,}" for name, peak, budget in lacks),
        shortage,
        hint=f"raise the budget of {' and of '.join(f'{name} to {peak} bytes' for name, peak, _ in lacks)} "
        "or loosen the pins",
    )


def _short(excess: NDArray[np.int64]) -> list[int]:
    """The device that lacks most, then the others that lack bytes."""
    first, *others = np.argsort(-excess, kind="stable").tolist()
    return [first, *(device for device in others if excess[device] > 0)]


def solution(chosen: str, optimum: Optimum, price: float, baselines: dict[str, Scored]) -> Solution:
    """The solution that ``optimum`` is."""
    found = optimum.found
    assert optimum.bound <= found.cost * (1 + ROUNDING), "a placement that fits beats the lower bound"
    bound = min(optimum.bound, found.cost)
    return Solution(
        found.placement,
        found.cut,
        found.usage,
        found.cost,
        found.total_seconds,
        bound,
        bound,
        gap(found.cost, bound),
        price,
        tuple(_result(name, scored) for name, scored in baselines.items()),
        chosen,
        speaks_of(by_moments=optimum.by_moments),
    )


def _result(name: str, scored: Scored) -> BaselineResult:
    return BaselineResult(
        name,
        scored.placement,
        scored.cost,
        scored.total_seconds,
        int(scored.usage.peak[-1]),
        scored.fits,
    )
