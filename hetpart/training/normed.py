# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Weights of a length and a direction in half precision, whose formula PyTorch's kernel has for other types alone.

Its kernel for the CPU keeps the lengths of float16 in float32, and what stands for it in a trace says float16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_WEIGHT_NORM = torch.ops.aten._weight_norm.default


def is_weight_norm_of_halves(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether it is what ``torch.nn.utils.parametrizations.weight_norm`` calls, of float16."""
    return target is _WEIGHT_NORM and args[0].dtype == torch.float16


def weight_norm(direction: Tensor, length: Tensor, dim: int = 0) -> Tensor:
    """``length`` · v / ‖v‖, the norm over all axes but ``dim`` (Salimans and Kingma 2016)."""
    axes = [axis for axis in range(direction.dim()) if axis != dim]
    whole = direction.float()
    norms = torch.linalg.vector_norm(whole, dim=axes, keepdim=True)
    return (whole * (length.float() / norms)).to(direction.dtype)
