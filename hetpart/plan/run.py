"""What a run of a bundle showed: the records that ``runtime`` fills in and ``report`` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How the results compare with those of the uncut model in one session."""

    equal: bool
    exact: bool
    """Bit for bit, with ONNX Runtime's optimisations off; otherwise within ``tolerance``."""
    largest_difference: float
    worst_output: str
    tolerance: float


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One result of a run."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    """``None`` for what is not a tensor."""
    value: float | None = None
    """Of a tensor that is one number, and no complex one."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What was measured, beside what was predicted. Directions are written ``cpu->cuda:0``."""

    bundle: str
    runs: int
    median_seconds: float
    min_seconds: float
    predicted_seconds: float
    partitions: int
    copies: dict[str, int]
    """Copies of one run, by direction."""
    copied_bytes: dict[str, int]
    outputs: tuple[OutputSpec, ...]
    emulated: bool
    machine: str = ""
    """Name of the machine the plan was priced for."""
    check: CheckResult | None = None
    files: tuple[str, ...] = ()
    """Results written to disk."""
    load_seconds: float = 0.0
    load_bytes: int | None = None
    """By how much resident memory grew while the partitions were loaded; ``None`` where the system does not tell."""
    resident_bytes: int | None = None
    """Memory of the process after the runs, pages of weight files that it touched included."""
