"""What happens while a model trains, and who may listen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Trained:
    """One step was made."""

    step: int
    """Counted from 1 over all epochs, after the steps made before ``fit``."""
    epoch: int
    """Counted from 1."""
    loss: float
    seconds: float
    """Since the step before, waiting for the batch included."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Metrics were taken after a step."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The last step was made, or an error ended the training."""

    step: int
    failed: bool = False


Event: TypeAlias = Trained | Evaluated | Ended


class StopTraining(Exception):  # noqa: N818 - it is no error
    """Raised by a callback, or a step, it ends the training as its last step does: ``fit`` returns its history."""


class Callback:
    """Told of every event in the order they happen. An error it raises ends the training, and so does ``StopTraining``.

    ``Ended`` comes in any case, so that files are closed.
    """

    def on(self, event: Event) -> None:
        """Take note of ``event``."""
