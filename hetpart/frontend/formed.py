# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Operators whose forms PyTorch's tracer does not know, by others of which it does: PyTorch runs them.

``hetpart_formed::lstsq`` is ``torch.linalg.lstsq`` on the processor, but for drivers that return residuals only where a
matrix is of full rank; ``::one_hot`` is ``torch.nn.functional.one_hot`` of as many classes as there are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from hetpart.frontend.recomputed import differentiate

NAMESPACE = "hetpart_formed"
_DIVIDES = "gels"
"""The driver that takes matrices for ones of full rank; the default one returns no residuals."""
_BY_VALUES = ("gelsd", "gelss")
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def _lstsq(a: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Tensor, ...]:
    made = torch.linalg.lstsq(a.cpu(), b.cpu(), rcond, driver=driver)
    return tuple(one.clone(memory_format=torch.contiguous_format).to(a.device) for one in made)


def _lstsq_form(a: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Tensor, ...]:
    del rcond
    rows, columns = a.shape[-2:]
    are_vectors = a.dim() - 1 == b.dim() and a.shape[:-1] == b.shape
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[: -1 if are_vectors else -2])
    sides = () if are_vectors else (b.shape[-1],)
    real = a.dtype.to_real() if a.is_complex() else a.dtype
    residuals = (*batch, *(sides or (1,))) if driver == _DIVIDES and rows > columns else (0,)
    return (
        a.new_empty(*batch, columns, *sides),
        a.new_empty(residuals, dtype=real),
        a.new_empty((0,) if driver == _DIVIDES else a.shape[:-2], dtype=torch.int64),
        a.new_empty((*a.shape[:-2], rows) if driver in _BY_VALUES else (0,), dtype=real),
    )


def _one_hot(x: Tensor) -> Tensor:
    return functional.one_hot(x)


def _one_hot_form(x: Tensor) -> Tensor:
    return x.new_empty(*x.shape, torch.library.get_ctx().new_dynamic_size())


_library.define("lstsq(Tensor a, Tensor b, float? rcond, str? driver) -> (Tensor, Tensor, Tensor, Tensor)")
_library.impl("lstsq", _lstsq, "CompositeExplicitAutograd")
_library._register_fake("lstsq", _lstsq_form)
differentiate(_library, "lstsq", _lstsq)
_library.define("one_hot(Tensor x) -> Tensor")
_library.impl("one_hot", _one_hot, "CompositeExplicitAutograd")
_library._register_fake("one_hot", _one_hot_form)
_operators: Any = getattr(torch.ops, NAMESPACE)


def solved(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """In the place of ``torch.linalg.lstsq``; ``NotImplemented`` where data decide what it returns."""
    if driver in _BY_VALUES and a.shape[-2] > a.shape[-1]:
        return NotImplemented
    return torch.return_types.linalg_lstsq(_operators.lstsq(a, b, rcond, driver))


def counted(x: Tensor) -> Tensor:
    """In the place of ``torch.nn.functional.one_hot`` without a number of classes."""
    return _operators.one_hot(x)
