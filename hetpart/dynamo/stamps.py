# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whether weights were changed since a session read them: an optimiser's step, ``load_state_dict``, a merge.

PyTorch counts what writes to a tensor. What goes around its count, as ``weight.data.mul_(2)`` does, shows in elements
that are compared: of every weight some, and all of a small one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

_COMPARED = 64
"""Elements of a weight, spread over it. A rescaled, masked or updated weight changes most of its elements."""


@dataclass(frozen=True, slots=True, eq=False)
class Stamps:
    """What weights were when they were read."""

    counts: list[tuple[int, int]]
    """Of every weight, how often it was written to and where it lies."""
    samples: Sequence[torch.Tensor]
    """Views of some elements of every weight."""
    seen: Sequence[torch.Tensor]
    """What they were."""

    @classmethod
    def of(cls, weights: Sequence[torch.Tensor]) -> Stamps:
        """The stamps of ``weights`` as they are."""
        with torch.no_grad():
            samples = [_sample(weight.detach()) for weight in weights if weight.numel()]
            return cls(_counts(weights), samples, _gathered(samples))

    def hold(self, weights: Sequence[torch.Tensor]) -> bool:
        """Whether ``weights``, which are those of before, are as they were."""
        if _counts(weights) != self.counts:
            return False
        return all(map(torch.equal, _gathered(self.samples), self.seen))


def _counts(weights: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    # A tensor made in inference mode has no count.
    return [(0 if weight.is_inference() else weight._version, weight.data_ptr()) for weight in weights]


def _sample(weight: torch.Tensor) -> torch.Tensor:
    """A view of elements of ``weight``, as bytes where they are no numbers that compare with themselves."""
    flat = weight.as_strided((weight.numel(),), (1,)) if _is_dense(weight) else weight.reshape(-1)
    return flat[:: max(1, flat.numel() // _COMPARED)]


def _is_dense(weight: torch.Tensor) -> bool:
    expected, strides = 1, sorted(zip(weight.stride(), weight.shape, strict=True))
    for stride, size in strides:
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _gathered(samples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The elements, of every type in one tensor of its bytes: NaN is no change."""
    by_type: dict[Any, list[torch.Tensor]] = {}
    for sample in samples:
        by_type.setdefault(sample.dtype, []).append(sample)
    with torch.no_grad():
        return [torch.cat(group).view(torch.uint8) for group in by_type.values()]
