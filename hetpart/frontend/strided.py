# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Views by steps in memory, as elements that are looked up: a plan's tensors have their elements and no such memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import guard_or_false

aten = torch.ops.aten


def _viewed(x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None) -> torch.Tensor:
    places = _places(x, size, stride, storage_offset)
    # As an index, a number would be read while it is traced.
    return _as_it_lies(x).index_select(0, places.reshape(-1)).reshape(places.shape)


def _written(
    x: torch.Tensor, src: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> torch.Tensor:
    flat = _as_it_lies(x)
    places = _places(x, size, stride, storage_offset).reshape(-1)
    order = _axes(x)
    laid = flat.scatter(0, places, src.reshape(-1)).reshape([x.shape[axis] for axis in order])
    return laid.permute([order.index(axis) for axis in range(x.dim())])


def _as_it_lies(x: torch.Tensor) -> torch.Tensor:
    """The elements of ``x`` in the order of its memory; there are to be no others between them."""
    laid = x.permute(_axes(x))
    if not laid.is_contiguous():
        raise _looks_beyond(x)
    return laid.reshape(-1)


def _looks_beyond(x: torch.Tensor) -> NotImplementedError:
    return NotImplementedError(
        f"as_strided looks into memory of which its tensor, {tuple(x.shape)} in steps of {x.stride()}, is a part: give"
        " it the tensor that the memory was made for"
    )


def _axes(x: torch.Tensor) -> list[int]:
    """Those of ``x`` by their steps, the largest first."""
    return sorted(range(x.dim()), key=lambda axis: (x.stride(axis), x.shape[axis]), reverse=True)


def _places(x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any) -> torch.Tensor:
    """Where in the memory of ``x`` each element lies, from its first one on."""
    first = 0 if storage_offset is None else storage_offset - x.storage_offset()
    last = first + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    if guard_or_false(first < 0) or guard_or_false(last >= x.numel()):
        raise _looks_beyond(x)
    places = torch.full((1,) * len(size), first, dtype=torch.int64, device=x.device)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(count, device=x.device) * step
        places = places + along.reshape([-1 if axis == other else 1 for other in range(len(size))])
    return places.expand(list(size))


OWN: Mapping[OpOverload, Callable[..., Any]] = {
    aten.as_strided.default: _viewed,
    aten.as_strided_copy.default: _viewed,
    aten.as_strided_scatter.default: _written,
}
"""By operator."""
