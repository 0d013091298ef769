# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Operators that compute in float32 what is in half precision: PyTorch's kernels make other forms than traces say.

Its kernel of ``weight_norm`` keeps the lengths of float16 in float32, and that of bags in bfloat16, whose rows are
summed up, gives no places of theirs: what stands for them in a trace says otherwise (2.13, on the CPU).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_aten = torch.ops.aten
_WEIGHT_NORM = _aten._weight_norm.default
_BAGS = (_aten.embedding_bag.padding_idx, _aten.embedding_bag.default, _aten._embedding_bag.default)
_MODE, _SUM = 4, 0


def computed_in_full(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the call gives, if it is one of those; ``None`` otherwise."""
    if target is _WEIGHT_NORM and args[0].dtype == torch.float16:
        return _weight_norm(*args, **kwargs)
    if target in _BAGS and args[0].dtype == torch.bfloat16 and (*args, *[_SUM] * (_MODE + 1))[_MODE] == _SUM:
        whole = pytree.tree_map_only(Tensor, lambda value: value.float() if value.is_floating_point() else value, args)
        made, *rest = target(*whole, **kwargs)
        return (made.to(torch.bfloat16), *rest)
    return None


def _weight_norm(direction: Tensor, length: Tensor, dim: int = 0) -> Tensor:
    """``length`` · v / ‖v‖, the norm over all axes but ``dim`` (Salimans and Kingma 2016)."""
    axes = [axis for axis in range(direction.dim()) if axis != dim]
    whole = direction.float()
    norms = torch.linalg.vector_norm(whole, dim=axes, keepdim=True)
    return (whole * (length.float() / norms)).to(direction.dtype)
