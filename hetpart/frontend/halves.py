# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Numbers of the code beside tensors in half precision that such tensors cannot hold.

PyTorch multiplies and divides in float32, with the number as it is, and rounds the result; and it adds and compares
with the number as the tensor would hold it, and takes remainders so. The exporter has it the other way round, or rounds
what it adds twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten
_HELD: Mapping[torch.dtype, Callable[[float], Any]] = {torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}
_COMPUTING = (
    aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar,
    aten.mul_.Tensor, aten.mul_.Scalar, aten.div_.Tensor, aten.div_.Scalar,
)  # fmt: skip
_ADDING = (
    aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar,
    aten.add_.Tensor, aten.add_.Scalar, aten.sub_.Tensor, aten.sub_.Scalar,
)  # fmt: skip
ROUNDING = (aten.floor_divide_.Tensor, aten.floor_divide_.Scalar, aten.div_.Tensor_mode, aten.div_.Scalar_mode)
"""What divides in place and rounds."""
_STEPS = (aten.lerp.Scalar, aten.lerp.Tensor, aten.logit.default, aten.softplus.default)
"""What PyTorch computes in float32 and rounds once, and the exporter writes as steps that are rounded each."""
_COMPARING = {
    aten.eq.Scalar: aten.eq.Tensor,
    aten.ne.Scalar: aten.ne.Tensor,
    aten.lt.Scalar: aten.lt.Tensor,
    aten.le.Scalar: aten.le.Tensor,
    aten.gt.Scalar: aten.gt.Tensor,
    aten.ge.Scalar: aten.ge.Tensor,
}


def _is_lost(given: Any, dtype: torch.dtype) -> bool:
    """Whether it is a number that a tensor of ``dtype`` holds another one of."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    return _held(given, dtype) != given


def loses(node: Node) -> bool:
    """Whether a number is given that the first argument cannot hold."""
    dtype = _half_of(node)
    return dtype is not None and any(_is_lost(given, dtype) for given in (*node.args[1:], *node.kwargs.values()))


def _half_of(node: Node) -> torch.dtype | None:
    """The type of the first argument, where that is one in half precision."""
    first = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    return first.dtype if isinstance(first, torch.Tensor) and _in_half(first) else None


def _in_half(x: Any) -> bool:
    """Whether it is a tensor in half precision: PyTorch's own parts of others may give a number for one."""
    return isinstance(x, torch.Tensor) and x.dtype in _HELD


def _loses_beside_factor(node: Node) -> bool:
    """Whether one of the two is so: what is added, or what it is multiplied by first."""
    return ("alpha" in node.kwargs or len(node.args) > 2) and loses(node)


def _computed(target: OpOverload) -> Callable[..., Any]:
    def made(x: Any, other: Any, **named: Any) -> Any:
        numbers = (other, *named.values())
        if not _in_half(x) or not any(_is_lost(given, x.dtype) for given in numbers):
            return NotImplemented
        if isinstance(other, torch.Tensor):
            if other.dtype is not x.dtype:
                return NotImplemented
            other = other.float()
        return target(x.float(), other, **named).to(x.dtype)

    return made


def _added(target: OpOverload) -> Callable[..., Any]:
    def made(x: Any, other: Any, alpha: Any = 1) -> Any:
        if not _in_half(x) or not any(_is_lost(given, x.dtype) for given in (other, alpha)):
            return NotImplemented
        if not isinstance(other, torch.Tensor):
            return target(x.float(), _held(other, x.dtype) * _held(alpha, x.dtype)).to(x.dtype)
        if other.dtype is not x.dtype:
            return NotImplemented
        return target(x.float(), other.float(), alpha=_held(alpha, x.dtype)).to(x.dtype)

    return made


def _is_half(node: Node) -> bool:
    return _half_of(node) is not None


def _once_rounded(target: OpOverload) -> Callable[..., Any]:
    def made(x: Any, *others: Any, **named: Any) -> Any:
        if not _in_half(x):
            return NotImplemented
        wide = [each.float() if isinstance(each, torch.Tensor) else each for each in others]
        return target(x.float(), *wide, **named).to(x.dtype)

    return made


def _held(number: float, dtype: torch.dtype) -> float:
    with np.errstate(over="ignore"):
        return float(_HELD[dtype](number))


def with_all_digits(own: Callable[..., Any], target: OpOverload) -> Callable[..., Any]:
    """``own``, or ``target`` where it is not for the call, in float32 beside a number that the tensor cannot hold."""

    def made(x: Any, other: Any, **named: Any) -> Any:
        if not _in_half(x) or not _is_lost(other, x.dtype):
            return own(x, other, **named)
        found = own(x.float(), other, **named)
        found = target(x.float(), other, **named) if found is NotImplemented else found
        return found.to(x.dtype)

    return made


def _compared(among: OpOverload) -> Callable[..., Any]:
    def made(x: Any, other: Any) -> Any:
        if not _in_half(x) or not _is_lost(other, x.dtype):
            return NotImplemented
        return among(x, torch.full((), other, dtype=x.dtype, device=x.device))

    return made


LOST: Mapping[OpOverload, Callable[[Node], bool]] = {
    **dict.fromkeys((*_COMPUTING, *_COMPARING, *ROUNDING), loses),
    **dict.fromkeys(_ADDING, _loses_beside_factor),
    **dict.fromkeys(_STEPS, _is_half),
}
"""By operator, which of its calls go wrong whole."""
OWN: Mapping[OpOverload, Callable[..., Any]] = {
    **{target: _computed(target) for target in _COMPUTING},
    **{target: _added(target) for target in _ADDING},
    **{target: _once_rounded(target) for target in _STEPS},
    **{target: _compared(among) for target, among in _COMPARING.items()},
}
"""How those are taken apart."""
