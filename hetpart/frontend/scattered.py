# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Scattering from a tensor that is larger than its index, of which PyTorch reads the first elements on each axis.

ONNX's ScatterElements takes the two in one shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

from hetpart.frontend.conditions import asking

aten = torch.ops.aten


def differs(node: Node) -> bool:
    """Whether the index and what is scattered are of two shapes, or the index is empty."""
    index, src = (one.meta.get("val") if isinstance(one, Node) else None for one in node.args[2:4])
    return isinstance(index, torch.Tensor) and isinstance(src, torch.Tensor) and _differ(index, src)


def _differ(index: torch.Tensor, src: torch.Tensor) -> bool:
    with asking():
        return _is_empty(index) or any(
            guard_or_true(own != other) for own, other in zip(index.shape, src.shape, strict=False)
        )


def _is_empty(index: torch.Tensor) -> bool:
    return any(guard_or_false(size == 0) for size in index.shape)


def _cut(target: OpOverload) -> Callable[..., Any]:
    """``target`` of as much of what is scattered as the index has places for."""

    def made(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not _differ(index, src):
            return NotImplemented
        with asking():
            if _is_empty(index):
                return x.clone()
        for axis, size in enumerate(index.shape):
            src = src.narrow(axis, 0, size)
        return target(x, dim, index, src, *args, **kwargs)

    return made


OWN: Mapping[OpOverload, Callable[..., Any]] = {
    target: _cut(target)
    for target in (
        aten.scatter.src, aten.scatter.reduce, aten.scatter_add.default, aten.scatter_reduce.two,
    )
}  # fmt: skip
"""By operator."""
