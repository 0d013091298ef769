"""What differs between two plans: the records that `hetpart diff` prints. Figures are predicted."""

from __future__ import annotations

from dataclasses import dataclass

DIFF_SCHEMA, DIFF_VERSION = "hetpart.diff", 1


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after."""

    before: float
    after: float
    share: float | None
    """(after − before) / before; ``None`` where there was nothing before."""

    @classmethod
    def of(cls, before: float, after: float) -> Change:
        """The change from ``before`` to ``after``."""
        return cls(before, after, (after - before) / before if before else None if after else 0.0)

    def grew_beyond(self, limit: float) -> bool:
        """Whether it grew by more than this share. From nothing, anything is more."""
        return self.after > self.before if self.share is None else self.share > limit


@dataclass(frozen=True, slots=True)
class PlanSide:
    """One of the two plans."""

    model: str
    path: str
    """The model file as it was named; ``""`` for a model that was in memory."""
    machine: str
    budgets: dict[str, int]
    """Of the devices that have one."""
    ops: int
    weight_bytes: int
    footprint_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """One device. Where a plan has none of this name, its figures are 0."""

    device: str
    peak_bytes: Change
    weight_bytes: Change
    seconds: Change
    ops: Change


@dataclass(frozen=True, slots=True)
class DirectionChange:
    """Copies from one device to another."""

    direction: str
    """Written ``cpu->cuda:0``."""
    copies: Change
    nbytes: Change
    seconds: Change


@dataclass(frozen=True, slots=True)
class MovedOp:
    """An op that is on another device than it was."""

    op: str
    """Its name after."""
    op_before: str
    op_type: str
    scope: str
    device_before: str
    device_after: str
    seconds: Change
    """Predicted, each where it is."""
    reason: str
    """Why it is where it is now."""


@dataclass(frozen=True, slots=True)
class LoneOp:
    """An op that only one of the plans has."""

    op: str
    op_type: str
    scope: str
    device: str
    seconds: float


@dataclass(frozen=True, slots=True)
class HeldWeight:
    """A weight and where it is held, as in ``cuda:0 resident``."""

    weight: str
    nbytes: int
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A weight whose size, or whose place, is another."""

    before: HeldWeight
    after: HeldWeight


@dataclass(frozen=True, slots=True)
class Regression:
    """A figure that grew by more than is allowed."""

    what: str
    change: Change


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """Everything that differs. Figures are predicted."""

    before: PlanSide
    after: PlanSide
    seconds: Change
    """What a run takes: overlapped where it would overlap."""
    serial_seconds: Change
    lower_bound: Change
    partitions: Change
    copies: Change
    copied_bytes: Change
    devices: tuple[DeviceChange, ...]
    directions: tuple[DirectionChange, ...]
    moved: tuple[MovedOp, ...]
    """The longest first, by what they take now."""
    ops_appeared: tuple[LoneOp, ...]
    ops_vanished: tuple[LoneOp, ...]
    weights_appeared: tuple[HeldWeight, ...]
    """The largest first."""
    weights_vanished: tuple[HeldWeight, ...]
    weights_changed: tuple[WeightChange, ...]
    notes: tuple[str, ...]
    """Why figures may not be comparable."""
    max_regression: float | None = None
    """Share by which latency, peaks and copied bytes may grow; ``None`` where nothing was said."""
    regressions: tuple[Regression, ...] = ()
