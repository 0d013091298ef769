"""Latency against budget: what ``hetpart sweep`` found, on one machine or several."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best plan found under one budget. Where nothing fits, all but the budget and ``required_bytes`` is None."""

    budget_bytes: int
    """Of the accelerator, as it was asked for."""
    seconds: float | None = None
    """Predicted latency, session overheads counted. Along a curve it never rises."""
    cost: float | None = None
    """``seconds`` without session overheads: what ``lower_bound`` bounds."""
    lower_bound: float | None = None
    """No placement under this budget costs less."""
    gap: float | None = None
    """(cost − lower_bound) / cost."""
    price: float | None = None
    """Seconds that one more byte buys: the steepest way down to a larger budget of the curve. At the largest what the
    search found, 0 where more memory is known to buy nothing, ``None`` where nothing is known."""
    peak_bytes: int | None = None
    """Of the accelerator: a budget of so much would do for this plan."""
    partitions: int | None = None
    accelerator_ops: int | None = None
    copied_bytes: int | None = None
    required_bytes: int | None = None
    """Where nothing fits: the smallest budget found that would do."""
    required_on: str = ""
    """The device of that budget, where it is not the one that the curve is of."""
    knee: bool = False
    """From here on more memory buys much less."""
    of_all: bool = True
    """Whether ``lower_bound`` is one of placements that stream weights, too."""

    @property
    def fits(self) -> bool:
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class TargetBudget:
    """The smallest budget found on one machine that meets a latency."""

    budget_bytes: int | None
    """``None`` where no budget in reach was found to meet it."""
    seconds: float | None
    """What is reached with it."""
    too_small_bytes: int | None
    """A budget that provably does not meet it: what is needed is more than this. ``None`` where nothing is proven."""
    impossible: bool = False
    """Provably no budget in reach meets it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Latency against budget on one machine."""

    hardware: str
    """The machine as it was asked for."""
    machine: str
    origin: str
    device: str
    """Whose budget it is."""
    memory_bytes: int
    footprint_bytes: int
    """What all of the model takes on the accelerator."""
    points: tuple[CurvePoint, ...]
    """By budget, ascending."""
    target: TargetBudget | None = None
    notes: tuple[str, ...] = ()

    @property
    def best_seconds(self) -> float | None:
        """The latency of the largest budget under which anything fits."""
        return min((point.seconds for point in self.points if point.seconds is not None), default=None)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Curves of one model."""

    model: str
    path: str
    """The model file as it was named; ``""`` for a model that was in memory."""
    ops: int
    weight_bytes: int
    dimensions: dict[str, int]
    target_seconds: float | None
    curves: tuple[Curve, ...]
    """In the order the machines were asked for."""
    notes: tuple[str, ...] = ()

    @property
    def smallest(self) -> Curve | None:
        """The curve that meets the target with the smallest budget; the faster one of equals."""
        meeting = [curve for curve in self.curves if curve.target and curve.target.budget_bytes is not None]
        return min(meeting, key=_by_budget, default=None)


def _by_budget(curve: Curve) -> tuple[int, float]:
    assert curve.target is not None
    return curve.target.budget_bytes or 0, curve.target.seconds or 0.0
