# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Gradients of operators of ours, as operators too: PyTorch computes what they are of anew, and differentiates it.

An operator without a formula has no gradient, and no error: what is before it would not be trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

BACKWARD = "_backward"
"""The end of the name of an operator that gives gradients."""


def differentiate(library: Any, name: str, called: Callable[..., Any]) -> None:
    """Give ``library``'s operator ``name``, which computes ``called``, a gradient of every float that it takes."""
    namespace = library.ns
    operator: Any = getattr(getattr(torch.ops, namespace), name).default
    given = str(operator._schema).partition("(")[2].partition(") ->")[0]
    library.define(f"{name}{BACKWARD}(Tensor[] slopes, {given}) -> Tensor[]")

    def slopes_of(slopes: Sequence[Tensor], *args: Any) -> list[Tensor]:
        return _gradients(called, slopes, args)

    def form(slopes: Sequence[Tensor], *args: Any) -> list[Tensor]:
        del slopes
        return [torch.empty_like(one, memory_format=torch.contiguous_format) for one in _floats(args)]

    library.impl(f"{name}{BACKWARD}", slopes_of, "CompositeExplicitAutograd")
    library._register_fake(f"{name}{BACKWARD}", form)
    backward: Any = getattr(getattr(torch.ops, namespace), f"{name}{BACKWARD}")

    def handed_back(context: Any, *slopes: Tensor | None) -> tuple[Any, ...]:
        kept = iter(context.saved_tensors)
        args = [_like(arg, kept) for arg in context.args]
        known = [slope for slope, is_float in zip(slopes, context.floats, strict=True) if is_float]
        made = iter(backward(known, *args))
        return tuple(_told(arg, made) for arg in args)

    torch.library.register_autograd(operator, handed_back, setup_context=_kept, lib=library)


def _kept(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*_tensors(inputs))
    ctx.args = [_blank(arg) for arg in inputs]
    ctx.floats = [one.is_floating_point() or one.is_complex() for one in output]


def _blank(arg: Any) -> Any:
    """``arg`` with a mark in the place of every tensor: those that a context holds itself are never let go of."""
    if isinstance(arg, Tensor):
        return Tensor
    return [Tensor] * len(arg) if _is_list(arg) else arg


def _like(blank: Any, tensors: Any) -> Any:
    if blank is Tensor:
        return next(tensors)
    return [next(tensors) for _ in blank] if isinstance(blank, list) and Tensor in blank else blank


def _is_list(arg: Any) -> bool:
    return isinstance(arg, list | tuple) and all(isinstance(one, Tensor) for one in arg)


def _tensors(args: Sequence[Any]) -> list[Tensor]:
    each = (arg if _is_list(arg) else [arg] for arg in args)
    return [one for one in chain.from_iterable(each) if isinstance(one, Tensor)]


def _floats(args: Sequence[Any]) -> list[Tensor]:
    return [one for one in _tensors(args) if _differs(one)]


def _differs(one: Any) -> bool:
    return isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex())


def _told(arg: Any, made: Any) -> Any:
    """The gradients of one argument."""
    if _is_list(arg):
        return [next(made) if _differs(one) else None for one in arg]
    return next(made) if _differs(arg) else None


def _gradients(called: Callable[..., Any], slopes: Sequence[Tensor], args: Sequence[Any]) -> list[Tensor]:
    with torch.inference_mode(mode=False), torch.enable_grad():
        own = [one.detach().clone().requires_grad_(_differs(one)) for one in _tensors(args)]
        rest = iter(own)
        made = called(*(_like(_blank(arg), rest) for arg in args))
        results = [one for one in made if _differs(one)]
        pairs = [(one, slope) for one, slope in zip(results, slopes, strict=True) if one.requires_grad]
        sources = [one for one in own if one.requires_grad]
        found: Any = torch.autograd.grad(
            [one for one, _ in pairs], sources, [slope.clone() for _, slope in pairs], allow_unused=True
        )
    whole = (torch.zeros_like(one) if slope is None else slope for one, slope in zip(sources, found, strict=True))
    return [one.detach().contiguous() for one in whole]
