# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Parts of operators that PyTorch takes apart otherwise than it computes them, or not at all.

Those that go right whole for some arguments return ``NotImplemented`` for them: calls in the parts of others come here
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

from hetpart.frontend import halves, scattered, strided
from hetpart.frontend.conditions import may_be_empty

aten = torch.ops.aten
WIDENED = (aten.softmax.int, aten.mean.dim)
"""Operators whose translation casts what it made to the type that is asked for: of whole numbers the mean is whole."""


def _clamped(x: torch.Tensor, least: Any = None, most: Any = None, **named: Any) -> torch.Tensor:
    least, most = named.get("min", least), named.get("max", most)
    made = x if least is None else torch.maximum(x, _bound(x, least))
    return made if most is None else torch.minimum(made, _bound(made, most))


def _clamped_above(x: torch.Tensor, most: Any) -> torch.Tensor:
    return _clamped(x, None, most)


def _bound(x: torch.Tensor, number: Any) -> torch.Tensor:
    if isinstance(number, torch.Tensor):
        return number
    return torch.full((), number, dtype=torch.result_type(x, number), device=x.device)


def _floored(x: Any, other: Any, *, rounding_mode: str | None = None) -> torch.Tensor:
    """The quotient rounded down, as PyTorch finds it: by the remainder, of which nothing is rounded off.

    Python's ``//`` of floating point numbers does the same. One of the two may be a number.
    """
    if not torch.result_type(x, other).is_floating_point or rounding_mode == "trunc":
        return NotImplemented
    x, other = _bound(other, x), _bound(x, other)
    rest = torch.fmod(x, other)
    exact = (x - rest) / other
    exact = torch.where((rest != 0) & ((rest < 0) != (other < 0)), exact - 1, exact)
    whole = exact.floor()
    whole = torch.where(exact - whole > 0.5, whole + 1, whole)
    quotient = x / other
    whole = torch.where(exact == 0, quotient * 0, whole)
    return torch.where(other == 0, quotient, whole)


def _remainder(x: Any, other: Any) -> torch.Tensor:
    """With the sign of ``other``. One of the two may be a number."""
    if not torch.result_type(x, other).is_floating_point:
        return NotImplemented
    x, other = _bound(other, x), _bound(x, other)
    rest = torch.fmod(x, other)
    return torch.where((rest != 0) & ((rest < 0) != (other < 0)), rest + other, rest)


def _taken_from(x: torch.Tensor, other: Any, alpha: Any = 1) -> torch.Tensor:
    """``other`` less ``x``. PyTorch's own parts have a number in the place of a tensor."""
    return torch.sub(_bound(x, other), x, alpha=alpha)


def _diagonal(x: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    *batch, rows, columns = x.movedim((dim1, dim2), (-2, -1)).shape
    places = _places_of_diagonal(x, rows, columns, offset)
    return x.movedim((dim1, dim2), (-2, -1)).reshape(*batch, rows * columns).index_select(-1, places)


def _places_of_diagonal(x: torch.Tensor, rows: Any, columns: Any, offset: int) -> torch.Tensor:
    """In a matrix whose rows stand one behind the other."""
    number = torch.sym_min(rows + min(offset, 0), columns - max(offset, 0))
    number = max(number, 0) if isinstance(number, int) else number
    return max(offset, -offset * columns) + (columns + 1) * torch.arange(number, device=x.device)


def _with_diagonal(
    x: torch.Tensor, diagonal: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """PyTorch's parts write it into a view, which no diagonal is here."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    *batch, rows, columns = moved.shape
    places = _places_of_diagonal(x, rows, columns, offset).expand(diagonal.shape)
    made = moved.reshape(*batch, rows * columns).scatter(-1, places, diagonal).reshape(*batch, rows, columns)
    return made.movedim((-2, -1), (dim1, dim2)).contiguous()  # as views of it were traced


def _diagonal_backward(slope: torch.Tensor, sizes: Any, offset: int, dim1: int, dim2: int) -> torch.Tensor:
    return _with_diagonal(slope.new_zeros(sizes), slope, offset, dim1, dim2)


def _summed(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> torch.Tensor:
    """A product with ones, in whole numbers."""
    if x.dtype is not torch.int64 or not x.dim() or may_be_empty(x):
        return NotImplemented
    every = range(x.dim())
    axes = sorted(axis % x.dim() for axis in ([dim] if isinstance(dim, int) else dim or every))
    rest = [axis for axis in every if axis not in axes]
    number: Any = math.prod(x.shape[axis] for axis in axes)
    others = -1 if isinstance(number, int) else math.prod(x.shape[axis] for axis in rest)  # as many as fit none is any
    rows = x.permute(*rest, *axes).reshape(others, number)
    shape = [1 if axis in axes else x.shape[axis] for axis in every if keepdim or axis not in axes]
    made = (rows @ x.new_ones(number, 1)).reshape(shape)
    return made if dtype is None else made.to(dtype)


def _widened_first(target: OpOverload) -> Callable[..., Any]:
    """``target`` of what is in the type that its argument ``dtype`` asks of the result."""
    place = [argument.name for argument in target._schema.arguments].index("dtype")

    def made(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        dtype = args[place - 1] if len(args) >= place else kwargs.get("dtype")
        if dtype in (None, x.dtype):
            return NotImplemented
        return target(x.to(dtype), *args[: place - 1], **{**kwargs, "dtype": None})

    return made


def _log_softmax(x: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
    if not isinstance(dtype, bool) and dtype not in (None, x.dtype):
        return torch.log_softmax(x.to(dtype), dim)
    if x.dtype is not torch.float64:
        return NotImplemented
    size = x - x.amax(dim, keepdim=True)
    return size - size.exp().sum(dim, keepdim=True).log()


def _angle(x: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point():
        return NotImplemented
    return torch.where(x.isnan(), x, torch.where(x < 0, x.new_full((), math.pi), x.new_zeros(())))


def _geometric(x: torch.Tensor, p: float, *, generator: Any = None) -> torch.Tensor:
    """Of whole numbers, which cannot be drawn evenly between 0 and 1."""
    if x.is_floating_point() or generator is not None:
        return NotImplemented
    drawn = torch.rand_like(x, dtype=torch.float32)
    return (torch.floor(torch.log1p(-drawn) / math.log1p(-p)) + 1).to(x.dtype)


def _largest_norm(x: torch.Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:  # noqa: A002 - PyTorch's
    if ord not in (math.inf, -math.inf) or not x.dim():
        return NotImplemented
    size = x.abs() if dtype is None else x.to(dtype).abs()
    axes = [dim] if isinstance(dim, int) else dim or list(range(x.dim()))
    return size.amax(axes, keepdim) if ord > 0 else size.amin(axes, keepdim)


def _dropped(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return x * 0 if train and p == 1 else NotImplemented


def _step(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point():
        return NotImplemented
    return torch.where(x == 0, values, (x > 0).to(x.dtype))


def _times_vector(matrices: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    if matrices.dim() < 2 or vector.dim() != 1:
        return NotImplemented
    rows = matrices.reshape(-1, matrices.shape[-1])
    return torch.mm(rows, vector.unsqueeze(1)).reshape(matrices.shape[:-1])


def _nothing_added(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def made(_: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        """What is multiplied by a ``beta`` of 0 counts for nothing, also where it is no number."""
        found = product(one, other)
        return NotImplemented if beta else found if alpha == 1 else found * alpha

    return made


def _summed_products(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.bmm(one, other).sum(0)


def _normalised(x: torch.Tensor, *given: Any) -> torch.Tensor:
    """With what it has learned: what learns changes it."""
    weight, bias, mean, var, training, momentum, eps, *_ = given
    if training or mean is None or x.dtype is not torch.float64:
        return NotImplemented
    return aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, momentum, eps)[0]


OWN: Mapping[OpOverload, Callable[..., Any]] = {
    aten.batch_norm.default: _normalised,
    aten.mv.default: _times_vector,
    aten.matmul.default: _times_vector,
    aten.addbmm.default: _nothing_added(_summed_products),
    aten.addmv.default: _nothing_added(torch.mv),
    aten.addr.default: _nothing_added(torch.outer),
    aten.baddbmm.default: _nothing_added(torch.bmm),
    aten.clamp.default: _clamped,
    aten.clamp.Tensor: _clamped,
    aten.clamp_min.default: _clamped,
    aten.clamp_min.Tensor: _clamped,
    aten.clamp_max.default: _clamped_above,
    aten.clamp_max.Tensor: _clamped_above,
    aten.div.Tensor_mode: halves.with_all_digits(_floored, aten.div.Tensor_mode),
    aten.div.Scalar_mode: halves.with_all_digits(_floored, aten.div.Scalar_mode),
    aten.floor_divide.default: halves.with_all_digits(_floored, aten.floor_divide.default),
    aten.floor_divide.Scalar: halves.with_all_digits(_floored, aten.floor_divide.Scalar),
    **{target: halves.with_all_digits(_floored, target) for target in halves.ROUNDING},
    aten.rsub.Scalar: _taken_from,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Scalar_Tensor: _remainder,
    aten.diagonal.default: _diagonal,
    aten.diagonal_copy.default: _diagonal,
    aten.diagonal_scatter.default: _with_diagonal,
    aten.diagonal_backward.default: _diagonal_backward,
    aten.sum.default: _summed,
    aten.sum.dim_IntList: _summed,
    aten.heaviside.default: _step,
    **{target: _widened_first(target) for target in WIDENED},
    aten.log_softmax.int: _log_softmax,
    aten._log_softmax.default: _log_softmax,
    aten.linalg_vector_norm.default: _largest_norm,
    aten.angle.default: _angle,
    aten.dropout.default: _dropped,
    aten.geometric.default: _geometric,
    aten.geometric_.default: _geometric,
    **halves.OWN,
    **strided.OWN,
    **scattered.OWN,
}
"""By operator."""
