"""Why one op is where it is, and what it would cost elsewhere: what ``hetpart explain`` found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CausedCopy:
    """A copy that there is because of the op's side."""

    value: str
    source: str
    target: str
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Side:
    """The op on one device, every other op where the plan has it."""

    device: str
    chosen: bool
    seconds: float | None
    """Of the op itself; ``None`` where the device has no kernel for it."""
    group_seconds: float | None
    """Of all the ops that must be where it is."""
    weight_bytes: int
    """Of the weights that are held there for these ops alone."""
    weight_seconds: float
    """What so many bytes of the accelerator are worth at the plan's price; 0 on the host."""
    copies: tuple[CausedCopy, ...]
    """Copies that are needed with the op here and not with it on the other side."""
    peak_bytes: int | None
    """Of the accelerator."""
    fits: bool
    total_seconds: float | None
    """Predicted latency of the whole model."""
    obstacle: str = ""
    """Why it cannot be here."""

    @property
    def copy_seconds(self) -> float:
        return sum(copy.seconds for copy in self.copies)


@dataclass(frozen=True, slots=True)
class Forced:
    """The best plan with the op on another device than it is on, everything else placed anew."""

    device: str
    seconds: float | None = None
    """``None`` where there is no such plan."""
    cost: float | None = None
    """``seconds`` without session overheads: what ``lower_bound`` bounds."""
    lower_bound: float | None = None
    """No plan with the op there costs less."""
    partitions: int | None = None
    peak_bytes: int | None = None
    obstacle: str = ""
    """Why there is none."""
    required_bytes: int | None = None
    """Where the budget is why: the smallest that would do, as far as is found."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An op, its plan, and the plans with it elsewhere."""

    model: str
    path: str
    machine: str
    origin: str
    budgets: dict[str, int]
    op: str
    op_type: str
    scope: str
    device: str
    partition: int
    partitions: int
    reason: str
    pinned: bool
    together: tuple[str, ...]
    """Other ops that must be on the same device: fused or colocated with it."""
    price: float
    """Seconds that a byte of the accelerator is worth."""
    seconds: float
    """Predicted latency of the plan."""
    cost: float
    lower_bound: float
    sides: tuple[Side, ...]
    forced: tuple[Forced, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    """The PyTorch code that the op is from, where the exporter told."""
    asked: str = ""
    """The module or FX node that was asked for, where several ops are of it: this one takes longest."""
    others: tuple[str, ...] = ()
    """The rest of them."""
    price_known: bool = True
    """Whether a price of 0 says that a byte is worth nothing."""
