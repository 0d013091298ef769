"""From what probes took to the tables that predictions are read from."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hetpart.calibration.probes import Family, Sizes
from hetpart.rates import RateTable

LEAST_SECONDS = 2e-7
"""No kernel takes less: what remains after overheads were taken off may be noise around nothing."""


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
    return RateTable(axes, tuple(max(LEAST_SECONDS, filled[sizes]) for sizes in product(*family.axes)))


def _from_smaller(family: Family, sizes: Sizes, known: Mapping[Sizes, float]) -> float:
    """Seconds grow in proportion from the neighbours that are smaller along one axis; their mean."""
    grown: list[float] = []
    for position, axis in enumerate(family.axes):
        index = axis.index(sizes[position])
        smaller = (*sizes[:position], axis[index - 1], *sizes[position + 1 :])
        if index and smaller in known:
            grown.append(known[smaller] * sizes[position] / axis[index - 1])
    return sum(grown) / len(grown)
