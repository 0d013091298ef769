# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Functions that PyTorch's tracer refuses since they look at what tensors hold, in steps that look at forms alone.

What they look at is to warn, to refuse, or to pick elements whose number the forms say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_impls import op_implementations_dict, register_op_impl
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from hetpart.frontend import grown, packed
from hetpart.frontend.copying import STAYING
from hetpart.frontend.formed import counted, solved
from hetpart.frontend.recurrent import know_layers
from hetpart.frontend.sought import open_among

aten = torch.ops.aten


class Traceable(TorchFunctionMode):
    """Takes what is traceable in the place of ``INSTEAD``'s functions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a call."""
        del types
        made = INSTEAD[func](*args, **(kwargs or {})) if func in INSTEAD else NotImplemented
        return func(*args, **(kwargs or {})) if made is NotImplemented else made


def _cov(x: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighted = rows if weights is None else rows * weights
    total: Any = rows.shape[1] if weights is None else weights.sum()
    rows = rows - (weighted.sum(1) / total).unsqueeze(1)
    free: Any = total - correction
    if aweights is not None and correction:
        free = total - correction * (weights * aweights).sum() / total
    free = torch.where(free > 0, free, 0) if isinstance(free, torch.Tensor) else max(free, 0)
    product = rows @ (rows if weights is None else rows * weights).t().conj()
    return (product / free).squeeze()


def _corrcoef(x: torch.Tensor) -> torch.Tensor:
    made = _cov(x)
    if made.is_complex():
        return NotImplemented
    if not made.dim():
        return made / made
    spread = made.diagonal().sqrt()
    return (made / spread.unsqueeze(1) / spread).clamp(-1, 1)


def _combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    number = x.shape[0] if x.dim() == 1 else None
    if not isinstance(number, int) or r < 1:
        return NotImplemented
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(itertools.chain.from_iterable(chosen(range(number), r)))
    return x.index_select(0, torch.tensor(places, dtype=torch.int64, device=x.device)).reshape(-1, r)


def _narrow(x: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    if not isinstance(start, torch.Tensor):
        return NotImplemented
    first = torch.where(start < 0, start + x.shape[dim], start).reshape(())
    return x.index_select(dim, first + torch.arange(length, device=x.device))


def _one_hot(x: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    if type(num_classes) is int and num_classes == -1:
        return counted(x)
    if not isinstance(num_classes, torch.SymInt):
        return NotImplemented
    number: Any = num_classes
    return (x.unsqueeze(-1) == torch.arange(number, device=x.device)).to(torch.int64)


def _gaussian_nll_loss(
    x: torch.Tensor, target: torch.Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> torch.Tensor:
    if not isinstance(var, torch.Tensor) or reduction not in _REDUCTIONS:
        return NotImplemented
    if var.shape == x.shape[:-1]:
        var = var.unsqueeze(-1)
    others = [size for size, wanted in zip(var.shape, x.shape, strict=False) if size != wanted]
    if var.dim() != x.dim() or others not in ([], [1]):
        return NotImplemented
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (x - target).square() / var)
    return _REDUCTIONS[reduction](loss + 0.5 * math.log(2 * math.pi) if full else loss)


_REDUCTIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "none": torch.clone,
}


def _ctc_mean(  # noqa: PLR0913 - PyTorch's arguments
    scores: torch.Tensor,
    targets: torch.Tensor,
    scored: Any,
    lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    if reduction != "mean" or isinstance(lengths, torch.Tensor):
        return NotImplemented
    losses = functional.ctc_loss(scores, targets, scored, lengths, blank, "none", zero_infinity)
    return (losses / torch.tensor([max(length, 1) for length in lengths], dtype=losses.dtype)).mean()


def _squeeze(x: torch.Tensor, dim: int | Sequence[int] | None = None) -> torch.Tensor:
    """Ask which sizes are 1, as code would: the tracer takes those that it does not know for others."""
    by_data = False
    for size in open_among(x, dim):
        if free_unbacked_symbols(size):
            by_data = True
        else:
            bool(size == 1)
    if dim is None or not by_data:
        return NotImplemented
    named = [dim] if isinstance(dim, int) else dim
    return aten.squeeze.dims(STAYING(x, named), named)


def _random(x: torch.Tensor, *bounds: Any, **named: Any) -> torch.Tensor:
    """Between two bounds: a trace is code, in which no argument can be called ``from``."""
    told = dict(zip(("from", "to"), bounds, strict=False)) | named
    if {*told} != {"from", "to"} or None in told.values():
        return NotImplemented
    return x.copy_(torch.randint(told["from"], told["to"], x.shape, device=x.device))


def _randint_like(x: torch.Tensor, *bounds: Any, **named: Any) -> torch.Tensor:
    """Of what records gradients: PyTorch has no formula for a form."""
    return torch.randint_like(x.detach(), *bounds, **named)


INSTEAD: Mapping[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    torch.combinations: _combinations,
    torch.narrow: _narrow,
    torch.Tensor.narrow: _narrow,
    functional.one_hot: _one_hot,
    functional.ctc_loss: _ctc_mean,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.linalg.lstsq: solved,
    torch.Tensor.random_: _random,
    torch.randint_like: _randint_like,
    **dict.fromkeys((torch.squeeze, torch.Tensor.squeeze), _squeeze),
    **packed.INSTEAD,
    **grown.INSTEAD,
}
"""By PyTorch's function; ``NotImplemented`` where the call is traceable as it is, or not at all."""


def _ctc_loss(mode: Any, func: Any, scores: Any, targets: Any, scored: Any, lengths: Any, *_: Any, **__: Any) -> Any:
    """The losses, and sums over all alignments by place in the target and the blanks around it."""
    del targets, scored, func
    if isinstance(lengths, torch.Tensor):
        with mode.shape_env.ignore_fresh_unbacked_symbols():
            longest = mode.shape_env.create_unbacked_symint()
        torch._check(longest >= 0)
    else:
        longest = max(lengths, default=0)
    batch = scores.shape[1] if scores.dim() == 3 else 1
    return scores.new_empty(batch), scores.new_empty(batch, scores.shape[0], 2 * longest + 1)


def _ctc_slopes(mode: Any, func: Any, slope: Any, scores: Any, *_: Any, **__: Any) -> Any:
    """Of the losses, by what they are of."""
    del mode, func, slope
    return torch.empty_like(scores)


def know_forms() -> None:
    """Tell PyTorch's tracer the forms of what it has no rule for, or one that holds for the example's sizes alone."""
    for target in (aten._ctc_loss.default, aten._ctc_loss.Tensor):
        if target not in op_implementations_dict:
            register_op_impl(target)(_ctc_loss)
    for target in (aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor):
        if target not in op_implementations_dict:
            register_op_impl(target)(_ctc_slopes)
    know_layers()
