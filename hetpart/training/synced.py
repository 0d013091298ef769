# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a step keeps, written into a model: all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import torch
from torch import Tensor, nn

from hetpart.errors import InvalidFeedError
from hetpart.training.kept import alike

EXTRA = "_extra_state"
"""What PyTorch calls what ``get_extra_state`` gives."""
LIKE = "give the model that was compiled, or one made like it: the module itself, not what wraps it"


def write_into(model: nn.Module, contents: Mapping[str, Tensor]) -> None:
    """Copy ``contents`` into the parameters and buffers of ``model`` that are called so.

    Raises:
        InvalidFeedError: it has others, or none that hold anything; nothing has been copied then.
    """
    held = dict(chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)))
    extra = {name: tensor for name, tensor in contents.items() if _owner_of_extra(model, name) is not None}
    contents = {name: tensor for name, tensor in contents.items() if name not in extra}
    first: dict[int, str] = {}
    for name, tensor in contents.items():
        _require_like(name, tensor, held.get(name), type(model).__name__)
        own = first.setdefault(id(held[name]), name)
        if own != name and not alike(contents[own], tensor):
            what = f"{own!r} and {name!r} of the step differ, and are one tensor in {type(model).__name__}"
            raise InvalidFeedError(what, hint=LIKE)
    with torch.no_grad():
        for name, tensor in contents.items():
            held[name].copy_(tensor)
    for name, tensor in extra.items():
        owner = _owner_of_extra(model, name)
        assert owner is not None
        owner.set_extra_state(tensor.clone())


def _owner_of_extra(model: nn.Module, name: str) -> nn.Module | None:
    """The module that keeps ``name`` by ``get_extra_state``."""
    path, _, last = name.rpartition(".")
    return dict(model.named_modules()).get(path) if last == EXTRA else None


def _require_like(name: str, tensor: Tensor, held: Tensor | None, model: str) -> None:
    if held is None or held.shape != tensor.shape:
        what = "there is none there" if held is None else f"it is {list(held.shape)} there"
        raise InvalidFeedError(f"{name!r} of the step is {list(tensor.shape)}, and {what}, in {model}", hint=LIKE)
    if any(step == 0 and size > 1 for step, size in zip(held.stride(), held.shape, strict=True)):
        raise InvalidFeedError(
            f"elements of {name!r} lie in one place in {model}", hint="clone() what is expanded before it is written to"
        )
    if held.is_meta:
        raise InvalidFeedError(
            f"{name!r} has a form and no content in {model}", hint="model.to_empty(device='cpu') gives it memory"
        )
