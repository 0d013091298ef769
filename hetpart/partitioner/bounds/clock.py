"""What is left of the user's time."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class Clock:
    """What is left of the user's time."""

    end: float

    @classmethod
    def of(cls, seconds: float) -> Clock:
        """That is up in so many seconds."""
        return cls(monotonic() + seconds)

    @property
    def left(self) -> float:
        return max(0.0, self.end - monotonic())

    def expired(self) -> bool:
        return monotonic() > self.end
