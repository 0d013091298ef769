"""What a benchmark of a model's plans showed: the records that ``whatif.bench`` fills in and ``report`` prints."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the model, measured in turns with the others."""

    name: str
    median_seconds: float
    p95_seconds: float
    least_seconds: float
    predicted_seconds: float | None
    """``None`` where nothing is predicted of it."""
    partitions: int
    copies: int
    load_bytes: int | None
    """By how much resident memory of the process grew with its load and first run: a measurement."""
    peak_bytes: dict[str, int] = field(default_factory=dict[str, int])
    """Predicted peak of every device."""


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Contenders, the fastest in the median first."""

    model: str
    machine: str
    emulated: bool
    rounds: int
    contenders: tuple[Contender, ...]
    left_out: dict[str, str]
    """Those that could not be measured, and why."""
    kept: str = ""
    """Name of the one whose plan was written."""
    bundle: str = ""
