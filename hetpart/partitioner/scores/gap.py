"""How far a lower bound lies below a cost, and what it is a bound on."""

from __future__ import annotations

from hetpart.plan.figures import ALIVE

SERIAL = "serial model: seconds of every op on its device plus every copy, session overheads left out"
WEIGHTS = "memory: the weights alone"
MOMENTS = f"memory: the weights, sessions and {ALIVE}, with partitions cut and ordered as hetpart does"


def gap(cost: float, lower_bound: float) -> float:
    """How much of ``cost`` a better placement could save at most, as a fraction."""
    return max(0.0, (cost - lower_bound) / cost) if cost > 0 else 0.0


def speaks_of(*, by_moments: bool) -> str:
    """What a lower bound is one on, in words."""
    return f"{SERIAL}; {MOMENTS if by_moments else WEIGHTS}"
