"""What a probe took, by where its operands and its code lay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetpart.calibration.probes import Key


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of a probe's run: the least, of what chance decides the lower quarter's."""

    streamed: float
    """Its weights come from main memory."""
    cool: float
    """Other data passed through the core's own caches before."""
    warm: float
    far: float
    """Other data passed through all caches before, and nothing warmed its code."""

    def least(self, other: Taken) -> Taken:
        """The least of every state."""
        return Taken(
            min(self.streamed, other.streamed),
            min(self.cool, other.cool),
            min(self.warm, other.warm),
            min(self.far, other.far),
        )


@dataclass(frozen=True, slots=True)
class TakenByKernels:
    """The least seconds of each kernel of a profiled probe, by op type."""

    cool: Mapping[str, float]
    warm: Mapping[str, float]

    def least(self, other: TakenByKernels) -> TakenByKernels:
        return TakenByKernels(_least(self.cool, other.cool), _least(self.warm, other.warm))


def named(key: Key) -> str:
    """A probe's key in the file, such as ``gemm 16 64 64``."""
    name, sizes = key
    return " ".join([name, *map(str, sizes)])


def key_of(name: str) -> Key:
    """The probe that ``named`` calls so."""
    family, *sizes = name.split(" ")
    return family, tuple(map(int, sizes))


def _least(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: min(seconds, other.get(name, seconds)) for name, seconds in one.items()}
