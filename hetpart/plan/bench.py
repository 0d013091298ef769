"""What a benchmark of a model's plans showed: the records that ``whatif.bench`` fills in and ``report`` prints."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """What runs held on one device, each figure as counted by whoever held it. Bytes."""

    mapped: int
    """Weights that are read where they lie in their files, and those that runs stream from the host."""
    prepared: int
    """ONNX Runtime's arenas before a run: weights that its sessions copied, folded or packed."""
    other_weights: int
    """By how much the plan's weights exceed both: ONNX Runtime holds them in memory that nobody counts."""
    activations: int
    """What the partition that took most took of its arena besides."""
    buffers: int
    """The arena of values between partitions."""
    states: int
    """Blocks of what stays there from run to run. What grows lies in ONNX Runtime's arenas."""
    values: int
    """Most held at once of other values between partitions, and of the caller's."""
    reserved: int
    """What ONNX Runtime's arenas took from the system by the end: it counts as held what it has in use of that."""

    @property
    def peak(self) -> int:
        """All that was in use at the peak, ``reserved`` aside."""
        weights = self.mapped + self.prepared + self.other_weights
        return weights + self.activations + self.buffers + self.states + self.values


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
    measured_peak_bytes: dict[str, int] = field(default_factory=dict[str, int])
    """``HeldMemory.peak`` of every device in runs apart from those that were timed. None of a single session on
    several devices: it has one count for all."""
    held: dict[str, HeldMemory] = field(default_factory=dict[str, HeldMemory])
    """What that consists of."""


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
