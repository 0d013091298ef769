"""From what probes took to the tables that predictions are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hetpart.calibration.families import Family, Sizes
from hetpart.rates import LEAST_SECONDS, RateTable

_Grid = NDArray[np.float64]


def table(family: Family, seconds: Mapping[Sizes, float]) -> RateTable:
    """The table of ``family``: measured points as they are, those left out from the next smaller at its rate.

    Args:
        family: What was measured.
        seconds: Of a call, at every point of ``family.points()``.
    """
    filled = dict(seconds)
    for sizes in product(*family.axes):
        if sizes not in filled:
            filled[sizes] = _from_smaller(family, sizes, filled)
    axes = tuple(tuple(map(float, axis)) for axis in family.axes)
    return _table(family, axes, [filled[sizes] for sizes in product(*family.axes)])


def _table(family: Family, axes: tuple[tuple[float, ...], ...], seconds: Sequence[float]) -> RateTable:
    """With no call that takes longer than a larger one, where the family's calls grow."""
    grid = np.maximum(LEAST_SECONDS, seconds).reshape([len(axis) for axis in axes])
    if family.grows:
        grid = _growing(_with_little_ones(_growing(grid), axes[0]))
    return RateTable(axes, tuple(grid.ravel().tolist()))


def _growing(grid: _Grid) -> _Grid:
    for axis in range(grid.ndim):
        grid = np.flip(np.minimum.accumulate(np.flip(grid, axis), axis), axis)
    return grid


def _with_little_ones(grid: _Grid, sizes: tuple[float, ...]) -> _Grid:
    """With calls that are too short to be measured beside a run: they start, and take their part of the next larger."""
    filled = grid.copy()
    for place in reversed(range(len(sizes) - 1)):
        part = LEAST_SECONDS + (filled[place + 1] - LEAST_SECONDS) * sizes[place] / sizes[place + 1]
        filled[place] = np.where(filled[place] > LEAST_SECONDS, filled[place], part)
    return filled


def scaled(whole: RateTable, family: Family, seconds: Mapping[Sizes, float]) -> RateTable:
    """``whole`` as it is where ``seconds`` were taken, at fewer points.

    What more threads gain changes slowly with the size; what a kernel takes does not.

    Args:
        whole: Of one thread, at every point.
        family: With fewer points.
        seconds: Of a call with more threads, at every point of ``family.points()``.
    """
    gained = {sizes: max(LEAST_SECONDS, taken) / whole.at(sizes) for sizes, taken in seconds.items()}
    for sizes in product(*family.axes):
        if sizes not in gained:
            smaller = [gained[other] for other, _ in _smaller(family, sizes) if other in gained]
            gained[sizes] = sum(smaller) / len(smaller)
    axes = tuple(tuple(map(float, axis)) for axis in family.axes)
    gains = RateTable(axes, tuple(gained[sizes] for sizes in product(*family.axes)))
    points = zip(product(*whole.axes), whole.seconds, strict=True)
    return _table(family, whole.axes, [taken * gains.at(sizes) for sizes, taken in points])


def _from_smaller(family: Family, sizes: Sizes, known: Mapping[Sizes, float]) -> float:
    """Seconds grow in proportion along the first axis, which of rows or elements; else along the others, their mean.

    They need not along another: rows of a table that is twice as large do not take twice as long.
    """
    grown = [(other, known[other] * times) for other, times in _smaller(family, sizes) if other in known]
    if family.slows:
        return max(seconds for _, seconds in grown)
    by_first = [seconds for other, seconds in grown if other[1:] == sizes[1:]]
    return by_first[0] if by_first else sum(seconds for _, seconds in grown) / len(grown)


def _smaller(family: Family, sizes: Sizes) -> Iterator[tuple[Sizes, float]]:
    """Neighbours that are smaller along one axis, and how many times as large that one size is."""
    for position, axis in enumerate(family.axes):
        index = axis.index(sizes[position])
        if index:
            yield (*sizes[:position], axis[index - 1], *sizes[position + 1 :]), sizes[position] / axis[index - 1]
