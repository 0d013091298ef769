# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Matrices that are factored: of their gradients autograd chooses the formula by how they lie in memory.

PyTorch factors a contiguous matrix turned, and its gradient solves with the factors turned back. A step is given all
it computes with as it is read, so that a trace with a turned one would solve with the wrong of the two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

_FACTORING = frozenset(
    {
        "det", "logdet", "slogdet", "inverse", "linalg_det", "linalg_slogdet", "linalg_inv", "linalg_inv_ex",
        "linalg_solve", "linalg_solve_ex", "linalg_tensorinv", "linalg_tensorsolve", "linalg_matrix_power",
        "linalg_cond", "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu_solve", "_linalg_det",
        "_linalg_slogdet", "_linalg_solve_ex",
    }
)  # fmt: skip
"""Names of operators."""


def laid_in_rows(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call, of matrices that are contiguous where it factors them."""
    if not isinstance(target, OpOverload) or target._schema.name.removeprefix("aten::") not in _FACTORING:
        return args, kwargs
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.contiguous(), (args, kwargs))
