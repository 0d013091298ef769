"""What a step does with its gradients, whatever the optimizers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hetpart.errors import InvalidOptionError
from hetpart.training.limits import ABOVE_0, LARGEST, Limits, require_count
from hetpart.training.precision import LossScale, half_named

SCALE = Limits(float(torch.finfo(torch.float32).tiny), below=LARGEST)
GROWTH, BACKOFF = Limits(1.0, above=True), Limits(0.0, above=True, below=1.0)
"""Of a scale that changes, as ``torch.amp.GradScaler`` has them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of ``hetpart.training.compile`` that change the graph of a step."""

    precision: str | None = None
    loss_scale: LossScale | float | None = None
    accumulate: int = 1
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        calls: Any = self.accumulate
        if type(calls) is not int or calls < 1:
            raise InvalidOptionError(f"accumulate cannot be {calls!r}", hint="it is a number of calls from 1")
        if self.clip_norm is not None:
            ABOVE_0.number("clip_norm", self.clip_norm)
        scale = self.loss_scale
        if scale is not None:
            SCALE.number("loss_scale", scale.initial if isinstance(scale, LossScale) else scale)
        if isinstance(scale, LossScale):
            GROWTH.number("growth of a loss_scale", scale.growth)
            BACKOFF.number("backoff of a loss_scale", scale.backoff)
            require_count("interval of a loss_scale", scale.interval)
        half_named(self.precision)

    @property
    def half(self) -> torch.dtype | None:
        """The type of parameters where they are used; ``None`` for their own."""
        return half_named(self.precision)

    @property
    def scaled(self) -> bool:
        """Whether gradients are of the loss times a number, which may overflow."""
        return self.loss_scale is not None or self.precision == "fp16"

    @property
    def needs_norm(self) -> bool:
        """Whether updates wait for the norm of all gradients."""
        return self.scaled or self.clip_norm is not None


NO_RULES = Rules()
