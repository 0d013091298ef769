# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Tensors that code gives other memory in place, as code older than ``torch.empty_like`` does.

PyTorch's tracer knows ``x.new().resize_as_(y)``, and has no memory for what was added where it makes the program
functional: it ends. Of ``x.data = y`` it sees nothing, and goes on with what ``x`` was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch


def _resize(x: torch.Tensor, *size: Any, memory_format: Any = None) -> torch.Tensor:
    del memory_format  # a plan's tensors have their elements, and no such memory
    sizes = tuple(size[0]) if len(size) == 1 and isinstance(size[0], list | tuple) else size
    held, wanted = x.numel(), math.prod(sizes)
    is_whole = x.untyped_storage().nbytes() == held * x.element_size() and x.is_contiguous()
    if not is_whole or held >= wanted:
        return NotImplemented
    if not held:
        return _take(x, x.new_empty(sizes))
    grown = x.new_zeros(wanted)
    grown[:held] = x.flatten()
    return _take(x, grown.view(sizes))


def _resize_as(x: torch.Tensor, template: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    return _resize(x, template.shape, memory_format=memory_format)


def _take(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    given: Any = other.detach()  # PyTorch's stubs know storages alone
    return x.set_(given)


_DATA: Any = torch.Tensor.data
INSTEAD: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.resize_: _resize,
    **dict.fromkeys((torch.Tensor.resize_as_, torch.resize_as_), _resize_as),
    _DATA.__get__: torch.Tensor.detach,
    _DATA.__set__: _take,
}
"""By PyTorch's function; ``NotImplemented`` where no memory is added."""
