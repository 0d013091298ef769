# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Recurrent layers that drop out between each other, one after the other.

PyTorch takes several layers in one call apart without their dropout: ``_rnn_helper`` of its decompositions, 2.13, asks
``num_layers < i - 1`` where ``i`` is the number of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_VF: Any = torch._VF
KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_UNPACKED = 9
"""Arguments of a call without batch sizes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a call, as PyTorch's functions have them behind the weights."""

    biased: bool
    layers: int
    dropout: float
    train: bool
    both_ways: bool
    batch_first: tuple[bool, ...] = ()
    """Not said of packed sequences."""

    @property
    def drop(self) -> bool:
        """Whether a layer is given less than the one before it made."""
        return bool(self.train and self.dropout and self.layers > 1)

    @property
    def of_one(self) -> tuple[Any, ...]:
        """The same of each layer."""
        return self.biased, 1, 0.0, self.train, self.both_ways, *self.batch_first


def settings_of(
    biased: bool, layers: int, dropout: float, train: bool, both_ways: bool, *batch_first: bool
) -> Settings:
    """By their places in a call."""
    return Settings(biased, layers, dropout, train, both_ways, batch_first)


def one_by_one(kind: str, *args: Any) -> Any:
    """In the place of PyTorch's function ``kind`` of sequences that are not packed."""
    if len(args) != _UNPACKED or isinstance(args[2], Tensor):
        return NotImplemented
    x, first, weights, *rest = args
    settings = settings_of(*rest)
    if not settings.drop:
        return NotImplemented

    def layer(x: Tensor, first: Any, weights: Sequence[Tensor]) -> Any:
        return getattr(_VF, kind)(x, first, weights, *settings.of_one)

    return stacked(layer, lambda x: torch.dropout(x, settings.dropout, True), x, first, weights, settings)


def stacked(
    layer: Callable[[Tensor, Any, Sequence[Tensor]], Any],
    dropped: Callable[[Tensor], Tensor],
    x: Tensor,
    first: Any,
    weights: Sequence[Tensor],
    settings: Settings,
) -> tuple[Tensor, ...]:
    """The rows of the last of several layers, and the last states of all.

    Args:
        layer: From rows, first states and weights to rows and last states.
        dropped: What the next layer is given of rows.
        x: The rows of the first one.
        first: The first states of all layers; of an LSTM two tensors.
        weights: Of all layers.
        settings: Of all layers.
    """
    sides, each = 2 if settings.both_ways else 1, len(weights) // settings.layers
    states: list[Sequence[Tensor]] = []
    for number in range(settings.layers):
        x = dropped(x) if number else x
        here = slice(number * sides, (number + 1) * sides)
        begin = first[here] if isinstance(first, Tensor) else tuple(state[here] for state in first)
        x, *last = layer(x, begin, weights[number * each : (number + 1) * each])
        states.append(last)
    return x, *(torch.cat(parts) for parts in zip(*states, strict=True))
