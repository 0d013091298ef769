# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Recurrent layers over packed sequences, as operators whose forms the tracer knows: PyTorch runs them.

PyTorch's own say nothing of their forms, and its layers read sizes out of a tensor. ``hetpart_packed::pack`` and
``::pad`` are ``pack_padded_sequence`` and ``pad_packed_sequence``; ``::lstm`` and ``::recurrent`` the layers between
them. A packed sequence of N steps in all has N rows, and its batch sizes are as many as the longest sequence has steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hetpart.frontend.layered import KINDS, one_by_one, settings_of, stacked
from hetpart.frontend.recomputed import differentiate

_VF: Any = torch._VF
NAMESPACE = "hetpart_packed"
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_LAYERS: Mapping[str, Callable[..., Any]] = {"gru": _VF.gru, "rnn_tanh": _VF.rnn_tanh, "rnn_relu": _VF.rnn_relu}
_SETTINGS = "bool biased, int layers, float dropout, bool train, bool both_ways"
_BATCH = "_hetpart_batch"
"""How many sequences batch sizes are of: every sequence has a first step."""
_LONGEST = "_hetpart_longest"
"""How many steps they are of at most."""


def _pack(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    data, sizes = _VF._pack_padded_sequence(x, lengths.cpu(), batch_first)
    return data, sizes.to(x.device)


def _pack_form(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    context, longest = torch.library.get_ctx(), x.shape[1 if batch_first else 0]
    rows, steps = context.new_dynamic_size(), context.new_dynamic_size()
    torch._check(steps <= longest)
    return x.new_empty(rows, *x.shape[2:]), lengths.new_empty(steps)


def _pad(
    data: Tensor, sizes: Tensor, batch: int, batch_first: bool, padding: float, steps: int
) -> tuple[Tensor, Tensor]:
    del batch
    made, lengths = _VF._pad_packed_sequence(data, sizes.cpu(), batch_first, padding, steps)
    return made.contiguous(), lengths.to(data.device)


def _pad_form(
    data: Tensor, sizes: Tensor, batch: int, batch_first: bool, padding: float, steps: int
) -> tuple[Tensor, Tensor]:
    del padding
    axes = (batch, steps) if batch_first else (steps, batch)
    return data.new_empty(*axes, *data.shape[1:]), sizes.new_empty(batch)


def _lstm(data: Tensor, sizes: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor], *settings: Any) -> Any:
    return _VF.lstm(data, sizes.cpu(), list(first), list(weights), *settings)


def _lstm_form(data: Tensor, sizes: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor], *settings: Any) -> Any:
    del sizes, weights
    hidden, cell = first
    return data.new_empty(data.shape[0], _width(hidden, settings)), torch.empty_like(hidden), torch.empty_like(cell)


def _recurrent(kind: str, data: Tensor, sizes: Tensor, first: Tensor, weights: Sequence[Tensor], *settings: Any) -> Any:
    return _LAYERS[kind](data, sizes.cpu(), first, list(weights), *settings)


def _recurrent_form(
    kind: str, data: Tensor, sizes: Tensor, first: Tensor, weights: Sequence[Tensor], *settings: Any
) -> Any:
    del kind, sizes, weights
    return data.new_empty(data.shape[0], _width(first, settings)), torch.empty_like(first)


def _width(hidden: Tensor, settings: Sequence[Any]) -> int:
    return hidden.shape[-1] * (2 if settings[-1] else 1)


def _leading(rows: Tensor, like: Tensor) -> Tensor:
    return rows[: like.shape[0]].clone()


def _leading_form(rows: Tensor, like: Tensor) -> Tensor:
    return rows.new_empty(like.shape[0], *rows.shape[1:])


_OPERATORS: Mapping[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "pack": ("(Tensor x, Tensor lengths, bool batch_first) -> (Tensor, Tensor)", _pack, _pack_form),
    "pad": (
        "(Tensor data, Tensor sizes, SymInt batch, bool batch_first, float padding, SymInt steps) -> (Tensor, Tensor)",
        _pad,
        _pad_form,
    ),
    "lstm": (
        f"(Tensor data, Tensor sizes, Tensor[] first, Tensor[] weights, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
        _lstm,
        _lstm_form,
    ),
    "recurrent": (
        f"(str kind, Tensor data, Tensor sizes, Tensor first, Tensor[] weights, {_SETTINGS}) -> (Tensor, Tensor)",
        _recurrent,
        _recurrent_form,
    ),
    "leading": ("(Tensor rows, Tensor like) -> Tensor", _leading, _leading_form),
}
_WITHOUT_GRADIENT = ("leading",)
for _name, (_schema, _called, _form) in _OPERATORS.items():
    _library.define(f"{_name}{_schema}")
    _library.impl(_name, _called, "CompositeExplicitAutograd")
    _library._register_fake(_name, _form)
    if _name not in _WITHOUT_GRADIENT:
        differentiate(_library, _name, _called)
_operators: Any = getattr(torch.ops, NAMESPACE)


def _packed(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    data, sizes = _operators.pack(x, lengths, batch_first)
    setattr(sizes, _BATCH, x.shape[0 if batch_first else 1])
    setattr(sizes, _LONGEST, x.shape[1 if batch_first else 0])
    return data, sizes


def _padded(data: Tensor, sizes: Tensor, batch_first: bool, padding: float, longest: int) -> Any:
    if not hasattr(sizes, _BATCH):
        return NotImplemented
    return _operators.pad(data, sizes, getattr(sizes, _BATCH), batch_first, padding, longest)


def _first(sizes: Tensor, place: Any) -> Any:
    return getattr(sizes, _BATCH, NotImplemented) if type(place) is int and place == 0 else NotImplemented


def _of_packed(kind: str, *args: Any, **named: Any) -> Any:
    if named:
        return NotImplemented
    if len(args) < 2 or not hasattr(args[1], _BATCH):
        return one_by_one(kind, *args)
    operator: Any = _operators.lstm if kind == "lstm" else partial(_operators.recurrent, kind)
    data, sizes, first, weights, *rest = args
    settings = settings_of(*rest)
    if not settings.drop:
        return operator(*args)
    most = getattr(sizes, _BATCH) * getattr(sizes, _LONGEST)

    def dropped(rows: Tensor) -> Tensor:
        """By as many numbers as there may be: how many rows there are is known when it runs."""
        kept = torch.dropout(rows.new_ones(most, rows.shape[1]), settings.dropout, True)
        return rows * _operators.leading(kept, rows.detach())

    def layer(data: Tensor, first: Any, weights: Sequence[Tensor]) -> Any:
        return operator(data, sizes, first, weights, *settings.of_one)

    return stacked(layer, dropped, data, first, weights, settings)


INSTEAD: Mapping[Any, Callable[..., Any]] = {
    _VF._pack_padded_sequence: _packed,
    _VF._pad_packed_sequence: _padded,
    Tensor.__getitem__: _first,
    **{getattr(_VF, kind): partial(_of_packed, kind) for kind in KINDS},
}
"""By PyTorch's function; ``NotImplemented`` where nothing is packed, or dropped between layers."""
