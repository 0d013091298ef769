"""What a step may be called with: what it was compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hetpart.errors import InvalidFeedError

if TYPE_CHECKING:
    from hetpart.plan.model import ValueSpec
    from hetpart.training.program import StepProgram

_SIZES = (
    "every batch has the sizes and types of example_batch: leave out a smaller last one, as a DataLoader with "
    "drop_last=True does, or compile a step for it"
)


def require_as_example(program: StepProgram, arguments: Mapping[str, ValueSpec], batch: Sequence[Any]) -> None:
    """See that ``batch`` is like the example, in terms of which its user thinks.

    Raises:
        InvalidFeedError: it has other parts, sizes or types, or another number where the step was traced with one.
    """
    if len(batch) != len(program.batch):
        raise InvalidFeedError(
            f"the batch has {len(batch)} parts, and the step was compiled for {len(program.batch)}",
            hint="call it as in example_batch",
        )
    for place, value in program.constants.items():
        _require_same(place, batch[place], value)
    for place, name in enumerate(program.batch):
        if name in arguments and isinstance(batch[place], torch.Tensor | np.ndarray):
            _require_planned(place, batch[place], arguments[name])


def _require_same(place: int, part: Any, value: Any) -> None:
    """That a part of the batch that is no tensor is what the step was traced with."""
    if type(part) is not type(value) or repr(part) != repr(value):
        raise InvalidFeedError(
            f"part {place} of the batch is {part!r}, and the step was compiled for {value!r}",
            hint="give it as a tensor, in example_batch too, to let it change from call to call",
        )


def _require_planned(place: int, part: torch.Tensor | np.ndarray[Any, Any], spec: ValueSpec) -> None:
    """Whether an array of another type can be converted is asked where that is done."""
    dtype = str(part.dtype).removeprefix("torch.") if isinstance(part, torch.Tensor) else spec.dtype
    if "complex" in str(part.dtype) or (dtype, tuple(part.shape)) == (spec.dtype, spec.shape):
        return
    raise InvalidFeedError(
        f"part {place} of the batch is {dtype}{list(part.shape)}, and the step was compiled for "
        f"{spec.dtype}{list(spec.shape or ())}",
        hint=_SIZES,
    )
