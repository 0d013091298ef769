"""The figures of a plan: what every device holds, what a run takes, and how good the placement is.

Bytes are integers, seconds floats.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AliveValue:
    """A value in memory at a device's peak."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Predicted use of one device. ``peak_bytes`` is everything counted: weights, activations, buffers, sessions."""

    device: str
    model: str
    provider: str
    memory_bytes: int
    budget_bytes: int | None
    """``None`` where no budget was set."""
    peak_bytes: int
    weight_bytes: int
    buffer_bytes: int
    """Size of the arena that holds values between partitions."""
    activation_bytes: int
    """Most bytes alive inside any one partition."""
    session_bytes: int
    peak_partition: int | None
    alive_at_peak: tuple[AliveValue, ...]
    """The largest first, weights left out."""
    seconds: float
    ops: int
    expected_activation_bytes: int | None = None
    """What an access profile lets expect of ``activation_bytes``, which take the most that values can be whose size
    only a run tells; ``None`` where no profile speaks of them."""
    state_bytes: int = 0
    """Of inputs that stay there from run to run, with room for their new content. Those that grow are estimated."""

    @property
    def headroom_bytes(self) -> int | None:
        return None if self.budget_bytes is None else self.budget_bytes - self.peak_bytes


@dataclass(frozen=True, slots=True)
class Baseline:
    """What another rule would have done at the same costs. A rule that does not fit has no ``seconds``."""

    name: str
    seconds: float | None
    peak_bytes: int
    fits: bool
    beyond: str = ""
    """Which limit on cuts it does not keep, in words; ``""`` for none."""


ALIVE = "what is alive at every op"
"""What a bound speaks of that has counted more than weights."""
NONE_STREAMED = "that streams no weight"
"""What a bound speaks of that does not hold for placements that stream some."""
PROVEN_GAP = 1e-6
"""A smaller gap is rounding."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """How far from optimal the placement can be, in modelled serial latency."""

    cost: float
    """Seconds: ops on their devices plus copies; what ``lower_bound`` bounds."""
    lower_bound: float
    gap: float
    """(cost − lower_bound) / cost."""
    price: float
    """Seconds one byte of accelerator memory is worth at the best bound."""
    speaks_of: str = "serial model: seconds of every op on its device plus every copy, session overheads left out"

    @property
    def price_known(self) -> bool:
        """Whether a price of 0 says that a byte is worth nothing: not with an open gap, nor beyond weights."""
        return self.price > 0 or (self.gap <= PROVEN_GAP and ALIVE not in self.speaks_of)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run should show. ``seconds`` is serial: ops, copies and session overheads one after another."""

    seconds: float
    compute_seconds: float
    transfer_seconds: float
    session_seconds: float
