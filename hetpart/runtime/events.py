"""What happens in a run, and what is to be done about it: the words between the scheduler and the lanes' threads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Produced:
    """The caller's values are where the tasks read them: the run begins."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy is made."""

    task: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A partition ran, and its values exist."""

    task: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A partition or copy under way came to nothing."""

    task: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller does not want the results any more."""


@dataclass(frozen=True, slots=True)
class StartCopy:
    """Make a copy; ``Copied`` or ``Failed`` answers."""

    task: int


@dataclass(frozen=True, slots=True)
class RunPartition:
    """Run a partition; ``Finished`` or ``Failed`` answers."""

    task: int


@dataclass(frozen=True, slots=True)
class ReleaseBuffer:
    """Let go of a value: nothing reads it any more."""

    value: int


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is under way, and nothing will be."""

    outcome: Outcome


Event = Produced | Copied | Finished | Failed | Cancelled
Action = StartCopy | RunPartition | ReleaseBuffer | Done
