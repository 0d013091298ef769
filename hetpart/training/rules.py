"""What a step does with its gradients, whatever the optimizers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.errors import InvalidOptionError
from hetpart.training.precision import half_named

if TYPE_CHECKING:
    import torch

    from hetpart.training.precision import LossScale


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of ``hetpart.training.compile`` that change the graph of a step."""

    precision: str | None = None
    loss_scale: LossScale | float | None = None
    accumulate: int = 1
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if self.accumulate < 1:
            raise InvalidOptionError(f"accumulate cannot be {self.accumulate}", hint="it is a number of calls from 1")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InvalidOptionError(f"clip_norm cannot be {self.clip_norm}", hint="it is a norm above 0")
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
