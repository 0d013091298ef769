"""What a step may be called with: what it was compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hetpart.errors import InvalidFeedError, InvalidOptionError
from hetpart.training.limits import LARGEST, require_seed

if TYPE_CHECKING:
    from hetpart.plan.model import ValueSpec
    from hetpart.training.program import StepProgram

_MOST = 2**63
"""What no number of an update reaches, which a step is given as int64."""
_SIZES = (
    "every batch has the sizes and types of example_batch: leave out a smaller last one, as a DataLoader with "
    "drop_last=True does, or compile a step for it"
)


def require_unnamed(named: Mapping[str, Any]) -> None:
    """See that no part of a batch has a name.

    Raises:
        InvalidFeedError: one has.
    """
    if named:
        raise InvalidFeedError(
            f"the step is given {', '.join(map(repr, named))} by name, and parts of a batch have none",
            hint="hand them over in the order of example_batch",
        )


def require_as_example(program: StepProgram, arguments: Mapping[str, ValueSpec], batch: Sequence[Any]) -> None:
    """See that ``batch`` is like the example, in terms of which its user thinks.

    Raises:
        InvalidFeedError: it has other parts, sizes or types, or another number where the step was traced with one.
    """
    named = next((place for place, part in enumerate(batch) if isinstance(part, Mapping)), None)
    if named is not None:
        raise InvalidFeedError(
            f"part {named} of the batch is a {type(batch[named]).__name__}, and parts are tensors and numbers",
            hint="hand over what is in it, in the order of example_batch: step(*batch.values())",
        )
    if len(batch) != len(program.batch):
        raise InvalidFeedError(
            f"the batch has {len(batch)} parts, and the step was compiled for {len(program.batch)}",
            hint="call it as in example_batch",
        )
    for place, value in program.constants.items():
        _require_same(place, batch[place], value)
    for place, name in enumerate(program.batch):
        if name in arguments:
            _require_planned(place, batch[place], arguments[name])


def require_content(content: Mapping[str, Any]) -> None:
    """See that ``content`` is of the form that ``state_dict`` gives.

    Raises:
        InvalidFeedError: it is no mapping, or has no number or no tensors by name.
    """
    given: Any = content
    if not isinstance(given, Mapping):
        raise InvalidFeedError(f"the content is a {type(given).__name__}", hint="give what state_dict gave")
    missing = [key for key in ("step", "tensors") if key not in content]
    if missing:
        raise InvalidFeedError(
            f"the content has no {missing[0]!r}, and has {sorted(map(str, content))[:4]}",
            hint="give what state_dict gave",
        )
    if not isinstance(tensors := content["tensors"], Mapping):
        raise InvalidFeedError(
            f"the tensors of the content are a {type(tensors).__name__}, and go by names",
            hint="give what state_dict gave",
        )


def counted(content: Mapping[str, Any], key: str, default: int = 0) -> int:
    """A number of what was done, from 0 on, in what ``state_dict`` gave.

    Raises:
        InvalidFeedError: it is none.
    """
    found = content.get(key, default)
    try:
        number = index(found)
    except TypeError:
        number = -1
    if not 0 <= number < _MOST:
        raise InvalidFeedError(
            f"the content's {key!r} is {found!r}, which counts nothing", hint="it is a whole number, from 0 to 2^63 - 1"
        )
    return number


def seeded(content: Mapping[str, Any], default: int) -> int:
    """The seed in what ``state_dict`` gave.

    Raises:
        InvalidFeedError: it is none of PyTorch's.
    """
    found = content.get("seed", default)
    try:
        require_seed(found)
    except InvalidOptionError as error:
        raise InvalidFeedError(f"the content's {error.message}", hint=error.hint) from error
    return found


def scaled(content: Mapping[str, Any], key: str, default: float) -> float:
    """What multiplied a loss, in what ``state_dict`` gave: 0 where it had come down to that.

    Raises:
        InvalidFeedError: it is no number that float32 holds.
    """
    found = content.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= LARGEST:
        raise InvalidFeedError(
            f"the content's {key!r} is {found!r}, which is no scale of a loss",
            hint=f"it is a number from 0 to {LARGEST:.3g}, as state_dict gives it",
        )
    return float(found)


def require_collected(content: Mapping[str, Any], part: int, parts: int, scale: float) -> None:
    """See that ``part`` of ``parts`` of a batch may have been collected in ``content``, times ``scale`` here.

    Raises:
        InvalidFeedError: they are as many, or more, or their gradients are times another number.
    """
    if part >= parts:
        raise InvalidFeedError(
            f"{part} parts of a batch are collected in the content, and {parts} make an update here",
            hint="compile with the accumulate= that it was made with",
        )
    key = "part_scale" if "part_scale" in content else "scale"  # without parts of their own all had the whole scale
    found = scaled(content, key, 1.0)
    if part and found != scale:
        raise InvalidFeedError(
            f"{part} parts of a batch are collected in the content, of losses times {found:g}, and here they are times "
            f"{scale:g}",
            hint="compile with its accumulate= and loss_scale=, or save when all parts of a batch have made an update",
        )


def _require_same(place: int, part: Any, value: Any) -> None:
    """That a part of the batch that is no tensor is what the step was traced with."""
    if type(part) is not type(value) or repr(part) != repr(value):
        raise InvalidFeedError(
            f"part {place} of the batch is {part!r}, and the step was compiled for {value!r}",
            hint="give it as a tensor, in example_batch too, to let it change from call to call",
        )


def _require_planned(place: int, part: Any, spec: ValueSpec) -> None:
    """What else than tensors can be converted is asked where that is done."""
    found = _named(part, spec)
    if found is not None and found != (named := f"{spec.dtype}{list(spec.shape or ())}"):
        raise InvalidFeedError(
            f"part {place} of the batch is {found}, and the step was compiled for {named}", hint=_SIZES
        )


def _named(part: Any, spec: ValueSpec) -> str | None:
    """What a part is called; ``None`` where only its conversion tells."""
    if part is None or isinstance(part, str | bytes):
        return repr(part)
    if isinstance(part, torch.Tensor) and part.layout is not torch.strided:
        return f"a tensor of the layout {str(part.layout).removeprefix('torch.')}"
    if isinstance(part, torch.Tensor) and not part.is_complex():
        return f"{str(part.dtype).removeprefix('torch.')}{list(part.shape)}"
    return f"{spec.dtype}{list(np.shape(part))}" if type(part) is np.ndarray else None
