# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a checkpoint can hold."""

from __future__ import annotations

import json
from operator import index
from typing import Any

import torch

from hetpart.errors import InvalidOptionError


def step_number(step: Any) -> int:
    """``step`` as a number, of NumPy too.

    Raises:
        InvalidOptionError: it is none from 0 on.
    """
    number = index(step) if hasattr(step, "__index__") and not isinstance(step, torch.Tensor) else -1
    if number < 0:
        raise InvalidOptionError(f"step cannot be {step!r}", hint="it is a whole number from 0 on")
    return number


def require_storable(tensors: Any) -> None:
    """See that ``tensors`` can be written, by name.

    Raises:
        InvalidOptionError: one is no tensor, or none that lies in memory element by element.
    """
    if not hasattr(tensors, "items"):
        raise InvalidOptionError(f"tensors cannot be a {type(tensors).__name__}", hint='they have names: {"weight": …}')
    for name, tensor in tensors.items():
        why = _refusal(name, tensor)
        if why is not None:
            raise InvalidOptionError(
                f"{name!r} {why}, which no checkpoint holds",
                hint="give dense tensors with content, by name; numbers belong to metadata, or into torch.tensor(…)",
            )


def _refusal(name: Any, tensor: Any) -> str | None:
    """What keeps ``tensor`` from being written."""
    if not isinstance(name, str):
        return "is a name that is no text"
    if not isinstance(tensor, torch.Tensor):
        return f"is of the type {type(tensor).__name__}"
    if tensor.layout is not torch.strided:
        return f"is a tensor of the layout {str(tensor.layout).removeprefix('torch.')}"
    return "is a tensor on the meta device, without content" if tensor.is_meta else None


def stamp_from(metadata: Any) -> str:
    """``metadata`` as the text that a part has in its header.

    Raises:
        InvalidOptionError: it is no JSON.
    """
    try:
        return json.dumps(dict(metadata or {}), sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"metadata is no JSON: {error}",
            hint="it is a dict of numbers, texts, lists and dicts; tensors go to tensors",
        ) from error
