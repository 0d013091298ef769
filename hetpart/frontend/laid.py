# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false
"""How tensors lie in memory, for operators that may ask: a plan's values are contiguous, wherever it has them.

What a program says of a tensor's steps is told in its own sizes, so that it holds for all that a run may have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch.utils._sympy.functions import Max

Steps = Sequence[Sequence[int]]
"""For every axis a factor, and the axes whose sizes it is multiplied by: ``[[1], [8, 0]]``."""
Told = Callable[[torch.Tensor], Steps | None]
"""What is said of how a tensor, of a trace, lies in memory; ``None`` where it may lie as it comes."""
_IN_A_TEXT = re.compile(r'"op": "(\w+)::')
"""How a loop that PyTorch runs whole names the operators in it."""
_BLIND = frozenset(
    {"aten", "prims", "prim", "hetpart", "hetpart_packed", "hetpart_formed", "hetpart_copying", "hetpart_bodies"}
)
"""Namespaces of operators that compute the same however their arguments lie. What looks into memory as ``as_strided``
does has another translation, and what runs a loop is as blind as what is in it."""


def told_to(target: OpOverload, args: Sequence[Any]) -> Told:
    """What ``target``, called with ``args``, is told of them: nothing where it computes the same whatever they say."""
    return _steps_of if _may_ask(target, args) else _nothing


def _nothing(tensor: torch.Tensor) -> None:
    del tensor


def _may_ask(target: OpOverload, args: Sequence[Any]) -> bool:
    texts = (argument for argument in args if isinstance(argument, str))
    inside = (name for text in texts if target.namespace == "hetpart_bodies" for name in _IN_A_TEXT.findall(text))
    return not {target.namespace, *inside} <= _BLIND


def _steps_of(tensor: torch.Tensor) -> Steps | None:
    """How ``tensor`` lies in memory; ``None`` where it is contiguous.

    Steps that sizes of other tensors decide, as a column of a table has them, are told by the order of the axes alone.
    """
    sizes, strides = [_expression(size) for size in tensor.shape], [_expression(step) for step in tensor.stride()]
    if _are_in_order(sizes, strides):
        return None
    found = [_factors(stride, sizes) for stride in strides]
    told = [each for each in found if each is not None]
    if len(told) == len(found):
        return told
    dense = _dense(tensor)
    return None if _are_in_order(sizes, [_product(each, sizes) for each in dense]) else dense


def laid(tensor: torch.Tensor, steps: Steps) -> torch.Tensor:
    """``tensor`` where it lies so; else a copy that does."""
    strides = [int(_product(each, list(tensor.shape))) for each in steps]
    if not tensor.numel() or list(tensor.stride()) == strides:
        return tensor
    if _are_apart(tensor.shape, strides):
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return _overlaid(tensor, strides)


def _are_apart(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory: every step leads behind all that smaller ones reach."""
    reached = 0
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and step <= reached:
            return False
        reached += step * (size - 1)
    return True


def _overlaid(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Of elements that share memory, as those of what is expanded do: they are equal."""
    places = torch.zeros((1,) * tensor.dim(), dtype=torch.int64, device=tensor.device)
    for axis, (size, step) in enumerate(zip(tensor.shape, strides, strict=True)):
        along = [size if axis == other else 1 for other in range(tensor.dim())]
        places = places + (torch.arange(size, device=tensor.device) * step).reshape(along)
    flat = tensor.new_zeros(int(places.max()) + 1)
    flat[places.reshape(-1)] = tensor.reshape(-1)
    return flat.as_strided(tensor.shape, strides)


def _expression(size: Any) -> Any:
    """``size`` as arithmetic. Of what is empty the steps are as if it were not, which says nothing."""
    if isinstance(size, int):
        return sympy.Integer(size)
    return size.node.expr.replace(Max, lambda *parts: Max(*(part for part in parts if part != 1)))


def _are_in_order(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether these are the steps of what is contiguous; of one element along an axis the step says nothing."""
    expected = [sympy.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    compared = zip(sizes, strides, expected, strict=True)
    return 0 in sizes or all(size == 1 or sympy.expand(step - other) == 0 for size, step, other in compared)


def _factors(stride: Any, sizes: Sequence[Any]) -> Sequence[int] | None:
    """``stride`` as a number and axes whose sizes it is multiplied by; ``None`` where it is none such."""
    axes: list[int] = []
    for axis, size in enumerate(sizes):
        while not size.is_number and not stride.is_number:
            quotient = sympy.cancel(stride / size)
            if sympy.denom(quotient) != 1:
                break
            stride = quotient
            axes.append(axis)
    return [int(stride), *axes] if stride.is_Integer else None


def _dense(tensor: torch.Tensor) -> Steps:
    """The axes of ``tensor`` in their order in memory, and nothing between them."""
    strides: tuple[Any, ...] = tensor.stride()
    hints = [step if isinstance(step, int) else step.node.hint or 0 for step in strides]
    order = sorted(range(tensor.dim()), key=lambda axis: -hints[axis])
    return [[1, *order[order.index(axis) + 1 :]] for axis in range(tensor.dim())]


def _product(step: Sequence[int], sizes: Sequence[Any]) -> Any:
    return step[0] * prod(sizes[axis] for axis in step[1:])
