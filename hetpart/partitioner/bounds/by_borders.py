# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A bound on placements that stream nothing, by how many sessions they have on the accelerator and by their level.

What is copied to the accelerator or from it lies in a buffer while some session there runs: of n sessions, one
holds 1/n of all that at least. So few sessions hold much of what crosses, and many hold their own bytes; and
beside what is held lies what the neediest op needs. Numbers from p to q and levels from one to another then keep to

    weights + p sessions + crossing / q <= budget        weights + p sessions + level <= budget        stretches <= q

with the stretches that a path has on the accelerator: no placement has more of them than sessions, and where they are
more than p they hold bytes too. Each has a price, and at any prices the cheapest cut is a bound. The prices are those
at which the placements met so far say most: a linear program in a handful of variables (Kelley 1960). A placement met
that enters the accelerator more often than the paths tell brings a path along which it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import Ways, heaviest_chain
from hetpart.partitioner.bounds.levels import Levels
from hetpart.partitioner.bounds.mincut import CutNetwork, Path, held_if_copied, stretches
from hetpart.partitioner.bounds.ranges import Range, raised
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.scoring import forced_placement, weight_bytes
from hetpart.partitioner.scores.sessions import most_others, most_sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

CUT_OPS = 600_000
"""Ops that are cut, all together, in either order of halving."""
MOST_CUTS = 120
"""In either order."""
RANGE_CUTS = 12
"""Of one range."""
MOST_PATHS = 4
SEVERAL = 2
MOST_NUMBERS = 4
"""Numbers of sessions that are looked at one by one."""
TOLERANCE = 2e-5
"""Relative; a range whose bound can rise by less has prices that are good enough."""
DEAREST = 100.0
"""What the whole budget, or a session, may cost at most, in times of the cheapest placement without prices."""


def bound_by_borders(
    within: PlacementProblem, starts: tuple[Placement, ...], enough: float, expired: Callable[[], bool]
) -> float:
    """A bound on what fits and runs something on the accelerator, raised until it is ``enough`` or the cuts are many.

    Args:
        within: A problem that streams nothing, with what can fit nowhere shut out.
        starts: Placements that tell of prices.
        enough: More is not looked for.
        expired: Whether time is up.
    """
    chain = heaviest_chain(within)
    session, budget = int(within.session_bytes[ACCELERATOR]), int(within.budgets[ACCELERATOR])
    if budget == NO_BUDGET or not len(chain) or expired():
        return -np.inf
    most, fewest = min(most_sessions(within), budget // session), 0 if most_others(within) else 1
    if most < fewest:
        return np.inf
    bound = -np.inf
    for by_level in (False, True):
        ranges = _Ranges(within, min(MOST_CUTS, CUT_OPS // max(1, within.ops)), [chain])
        ranges.meet(*starts)
        whole = Range(-np.inf, fewest, most, 0, len(ranges.levels) - 1)
        bound = max(bound, ranges.raised(whole, by_level, lambda found: found >= enough or expired()))
    return bound


def bounds_by_number(
    within: PlacementProblem, starts: tuple[Placement, ...], enough: float, expired: Callable[[], bool]
) -> tuple[Range, ...]:
    """Bounds on what fits and has two sessions or more on the accelerator, number by number as far as that matters.

    Args:
        within: As for ``bound_by_borders``.
        starts: The same.
        enough: The same.
        expired: The same.
    """
    chain = heaviest_chain(within)
    session, budget = int(within.session_bytes[ACCELERATOR]), int(within.budgets[ACCELERATOR])
    if budget == NO_BUDGET or not len(chain) or expired():
        return ()
    most = min(most_sessions(within), budget // session)
    ranges = _Ranges(within, min(MOST_CUTS, CUT_OPS // max(1, within.ops)), [chain])
    ranges.meet(*starts)
    found, bound = list[Range](), -np.inf
    for number in range(SEVERAL, most + 1):
        others = ranges.bounded(Range(bound, number, most, 0, len(ranges.levels) - 1))
        if others.bound >= enough or len(found) == MOST_NUMBERS or number == most:
            found.append(others)
            break
        found.append(ranges.bounded(replace(others, most=number)))
        bound = others.bound
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Met:
    """A placement in the figures that have prices."""

    placement: Placement
    cost: float
    weights: int
    crossing: int
    """Bytes of values that are copied."""
    level: int
    entered: list[int] = field(default_factory=list[int])
    """Stretches on the accelerator, of the paths known so far."""

    def along(self, paths: list[NDArray[np.int64]]) -> list[int]:
        """Stretches of every path."""
        self.entered.extend(stretches(path, self.placement) for path in paths[len(self.entered) :])
        return self.entered


@dataclass(frozen=True, slots=True)
class _Prices:
    """Seconds."""

    beside_level: float
    """Of a byte, level counted."""
    beside_border: float
    """Of a byte, what crosses counted."""
    sessions: tuple[float, ...]
    """Of a stretch of each path, as far as it takes a session's bytes."""
    stretches: tuple[float, ...]
    """Of a stretch of each path, beyond that."""

    @property
    def byte(self) -> float:
        return self.beside_level + self.beside_border


@dataclass(frozen=True, slots=True)
class _Room:
    """What a range leaves: its constraints' right sides."""

    beside_level: int
    beside_border: int
    fewest: int
    most: int

    def paid(self, prices: _Prices) -> float:
        """What the right sides take off a cut's value."""
        room = prices.beside_level * self.beside_level + prices.beside_border * self.beside_border
        return room + sum(prices.sessions) * self.fewest + sum(prices.stretches) * self.most


@dataclass(slots=True, eq=False)
class _Ranges:
    within: PlacementProblem
    left: int
    """Cuts that may still be made."""
    paths: list[NDArray[np.int64]]
    of: Levels = field(init=False)
    levels: NDArray[np.int64] = field(init=False)
    ways: Ways = field(init=False)
    nbytes: NDArray[np.int64] = field(init=False)
    """(D, V) Of a value, if it is copied to a device."""
    met: dict[bytes, _Met] = field(default_factory=dict[bytes, _Met])
    """By placement."""

    def __post_init__(self) -> None:
        self.of = Levels.of_ops(self.within)
        self.levels = self.of.known()
        self.ways = Ways.of(self.within)
        self.nbytes = held_if_copied(self.within)

    def raised(self, whole: Range, by_level: bool, enough: Callable[[float], bool]) -> float:
        """The bound of ``whole``, after ranges are halved until it is enough or no cuts are left."""
        goes_on: Callable[[float], bool] = lambda found: self.left > 0 and not enough(found)  # noqa: E731
        return raised(self.bounded(whole), self.bounded, by_level, goes_on)

    def meet(self, *placements: Placement) -> None:
        """Each adds its figures, and a path where it enters the accelerator more often than any path has it do."""
        for placement in placements:
            if placement.tobytes() not in self.met:
                self.met[placement.tobytes()] = self._figures(placement)
                self._follow(placement)

    def _follow(self, placement: Placement) -> None:
        if len(self.paths) < MOST_PATHS:
            often = self.ways.most_often(placement)
            most = max(stretches(path, placement) for path in self.paths)
            if stretches(often, placement) > most:
                self.paths.append(often)

    def _figures(self, placement: Placement) -> _Met:
        problem = self.within
        return _Met(
            placement,
            problem.cost(placement),
            weight_bytes(problem, placement, ACCELERATOR),
            int(self.nbytes[problem.copies(placement)].sum()),
            int(self.of.of_op[placement == ACCELERATOR].max(initial=0)),
        )

    def bounded(self, part: Range) -> Range:
        """With a bound of its own."""
        low, high = int(self.levels[part.lowest]), int(self.levels[part.highest])
        found = self.of.within(self.within, 0, high)
        if found is None:
            return replace(part, bound=np.inf)
        without = int(found.budgets[ACCELERATOR]) - part.fewest * int(found.session_bytes[ACCELERATOR])
        # Without sessions nothing is counted that crosses.
        room = _Room(without - low, without, part.fewest, max(1, part.most))
        least = forced_placement(found)
        self.meet(least)
        if weight_bytes(found, least, ACCELERATOR) > room.beside_level:
            return replace(part, bound=np.inf)
        return replace(part, bound=self._priced(found, room, part.bound, high))

    def _priced(self, problem: PlacementProblem, room: _Room, bound: float, high: int) -> float:
        """The best bound at the prices that say most of the placements met, until no others promise more."""
        for _ in range(RANGE_CUTS):
            known = [found for found in self.met.values() if found.level <= high]
            promised, prices = _best_prices(known, [found.along(self.paths) for found in known], room, problem)
            if promised <= bound * (1 + TOLERANCE) or self.left <= 0:
                break
            self.left -= 1
            value, placements = _cut(problem, self.paths, prices, room.most)
            bound = max(bound, value - room.paid(prices))
            self.meet(*placements)
        return bound


def _cut(
    problem: PlacementProblem, paths: list[NDArray[np.int64]], prices: _Prices, most: int
) -> tuple[float, tuple[Placement, ...]]:
    """What every placement costs at least with what it holds and its stretches at these prices; some that do."""
    network = CutNetwork.of(problem)
    if prices.byte > 0.0:
        each = [session + stretch for session, stretch in zip(prices.sessions, prices.stretches, strict=True)]
        counted = [Path(path, price / prices.byte) for path, price in zip(paths, each, strict=True) if price > 0.0]
        network = CutNetwork.of(problem, *counted, share=prices.beside_border / (prices.byte * most))
    found = network.cut(prices.byte)
    return found.value, (found.smallest, found.largest)


def _best_prices(
    met: list[_Met], entered: list[list[int]], room: _Room, problem: PlacementProblem
) -> tuple[float, _Prices]:
    """The prices at which the least of ``met`` is most, and what it is: no bound of the range is more.

    The variables are what is promised and the prices, those of bytes times what the budget leaves and all by the
    dearest placement. All paths' sessions together are worth a session's bytes at most.
    """
    from scipy.optimize import linprog

    unit, paths = float(max(1, room.beside_border)), len(entered[0])
    dearest = max(found.cost for found in met) or 1.0
    rows = [
        [
            1.0,
            (room.beside_level - found.weights) / unit,
            (room.beside_border - found.weights - found.crossing / room.most) / unit,
            *(float(room.fewest - stretch) for stretch in along),
            *(float(room.most - stretch) for stretch in along),
        ]
        for found, along in zip(met, entered, strict=True)
    ]
    session = int(problem.session_bytes[ACCELERATOR])
    worth = [0.0, -session / unit, -session / unit, *[1.0] * paths, *[0.0] * paths]
    found = linprog(
        [-1.0, *[0.0] * (2 + 2 * paths)],
        A_ub=np.array([*rows, worth]),
        b_ub=np.array([*(found.cost / dearest for found in met), 0.0]),
        bounds=[(None, None), *[(0.0, DEAREST)] * (2 + 2 * paths)],
    )
    promised, level, border, *each = (np.maximum(found.x, 0.0) * dearest).tolist()
    sessions, byte = each[:paths], (level + border) / unit
    # Rounding may leave a little more than a session's bytes are worth.
    fair = min(1.0, session * byte / (sum(sessions) or 1.0))
    prices = _Prices(level / unit, border / unit, tuple(price * fair for price in sessions), tuple(each[paths:]))
    return promised, prices
