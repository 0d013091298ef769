# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What a model changes of itself while its loss is computed: buffers are states of a step, nothing else is."""

from __future__ import annotations

import pickle
import random
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.frontend.weights import has_content

if TYPE_CHECKING:
    from torch.fx import Node

KEPT = "register_buffer(name, tensor), and write to it where it lies: self.mean.lerp_(x, 0.1)"
_aten = torch.ops.aten


class Assigned:
    """What modules made of their buffers by assigning others, as ``self.mean = …`` does, by name."""

    def __init__(self) -> None:
        self.contents: dict[str, Tensor] = {}

    @contextmanager
    def by(self, model: nn.Module) -> Generator[None]:
        """What is assigned within; afterwards the buffers are there that were before.

        Of assignments ``torch.export`` follows those of the outermost module alone, and of numbers none: a step would
        compute with what they were.

        Raises:
            InvalidModelError: a buffer gets another form, or a number of a module changes.
        """
        owners = dict(model.named_modules())
        buffers = {path: dict(owner._buffers) for path, owner in owners.items()}
        numbers = {path: _numbers(owner) for path, owner in owners.items()}
        yield
        self.contents.clear()
        for path, owner in owners.items():
            _require_same_numbers(path, numbers[path], _numbers(owner))
            for name, before in buffers[path].items():
                content = owner._buffers.get(name)
                if content is not before:
                    self.contents[f"{path}.{name}".removeprefix(".")] = _as_before(name, before, content)
                    owner._buffers[name] = before


def _as_before(name: str, before: Tensor | None, content: Any) -> Tensor:
    if not isinstance(content, Tensor) or before is None or _form(content) != _form(before):
        raise InvalidModelError(
            f"the forward pass makes another tensor of the buffer {name!r}: it was {_form(before)}, and is "
            f"{_form(content)}",
            hint="give a buffer the form from the beginning that it has after a step",
        )
    return content.detach()


def _form(tensor: Any) -> str:
    return f"{list(tensor.shape)} {tensor.dtype}" if isinstance(tensor, Tensor) else "none"


def _numbers(owner: nn.Module) -> dict[str, float]:
    return {name: value for name, value in vars(owner).items() if type(value) in (int, float)}


def _require_same_numbers(path: str, before: Mapping[str, float], after: Mapping[str, float]) -> None:
    for name, number in after.items():
        if name in before and before[name] != number:
            raise InvalidModelError(
                f"the forward pass changes the number {name!r} of {path or 'the model'!r} from {before[name]} to "
                f"{number}, and a step would compute with the first in every call",
                hint=f"keep it in a buffer: {KEPT}",
            )


@contextmanager
def require_undrawn(model: nn.Module) -> Generator[None]:
    """See that nothing within draws from the generators that Python's ``random`` and NumPy share, or modules keep.

    A trace keeps what they gave as a constant: every call would compute with the same numbers, and eager PyTorch with
    others.

    Raises:
        InvalidModelError: something is drawn.
    """
    before = _generators(model)
    yield
    for name, state in _generators(model).items():
        if state != before.get(name, state):
            raise InvalidModelError(
                f"the loss draws numbers from {name}, and a step would compute with the first ones in every call",
                hint="draw them where the batch is made, and hand them over in it as a tensor; of what PyTorch draws, "
                "a step draws anew in every call",
            )


def _generators(model: nn.Module) -> dict[str, object]:
    """States by name."""
    _, words, *rest = np.random.get_state()  # the array of words has no one answer to ==
    found: dict[str, object] = {
        "random": random.getstate(),
        "numpy.random": (np.asarray(words).tobytes(), *rest),
    }
    for path, owner in model.named_modules():
        for name, value in vars(owner).items():
            if isinstance(value, _GENERATORS):
                found[f"{name!r} of {path or 'the model'!r}"] = pickle.dumps(value)
    return found


_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)


def require_unwritten(given: Mapping[Node, str]) -> None:
    """See that none of what a graph is given is written to; ``given`` are names by argument.

    Raises:
        InvalidModelError: a parameter is, or a tensor that is no buffer.
    """
    for node, name in given.items():
        for user in node.users:
            if user.target is _aten.copy_.default and user.args[0] is node:
                raise InvalidModelError(
                    f"the forward pass writes to {name!r}, which is no buffer, as max_norm of an embedding does",
                    hint=f"write to a copy; what a step is to keep belongs into a buffer: {KEPT}",
                )


def require_apart(contents: Mapping[str, Any], changed: AbstractSet[str]) -> None:
    """See that nothing else lies in the memory of what a step changes; ``contents`` are all that the loss reads.

    Eager PyTorch changes both at once, each by its own gradient; a step keeps one state for each name.

    Raises:
        InvalidModelError: two tensors share elements.
    """
    tensors = {name: content for name, content in contents.items() if isinstance(content, Tensor)}
    held = {name: tensor for name, tensor in tensors.items() if has_content(tensor) and tensor.numel()}
    storages: dict[int, list[str]] = {}
    for name, content in held.items():
        storages.setdefault(content.untyped_storage().data_ptr(), []).append(name)
    for names in storages.values():
        for one, other in combinations(names, 2):
            if not changed.isdisjoint((one, other)) and _overlap(held[one], held[other]):
                first, second = (one, other) if one in changed else (other, one)
                raise InvalidModelError(
                    f"{second!r} lies in the memory of {first!r}, which a step changes, and is another tensor: a step "
                    "keeps each apart, so that one would not follow the other",
                    hint=f"tie them as one tensor, as b.weight = a.weight does, or give {second!r} a copy: .clone()",
                )


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors in one storage have a byte in common."""
    return one is other or np.shares_memory(_bytes(one), _bytes(other))


def _bytes(tensor: Tensor) -> Any:
    """Where the bytes of ``tensor`` lie, whatever its type."""
    width = tensor.element_size()
    stored: Any = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    strides = tuple(width * stride for stride in tensor.stride())
    return as_strided(stored.numpy()[width * tensor.storage_offset() :], (*tensor.shape, width), (*strides, 1))
