# pyright: reportUnknownMemberType=false
"""Trainings whose updates, on the host, can run beside the backward pass of an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.models.recommenders import perceptron
from benchmarks.models.trained import GPT, Batch, classified, next_token
from hetpart.training import FTRL, AdamW
from hetpart.training.optimizers import Optimizer

CLASSES = 10


@dataclass(frozen=True, slots=True)
class Case:
    """A training, not yet made."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[..., Tensor]
    optimizer: Optimizer


def alive(model: nn.Module) -> nn.Module:
    """``model`` with He's initialisation: in deep perceptrons PyTorch's own lets signals die away."""
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    return model


def convolutional(width: int, wide: int) -> nn.Module:
    """Three convolutions that compute most, before three layers that hold most: after VGG, for pictures of 32 × 32."""
    channels = [3, width, 2 * width, 4 * width]
    pairs = pairwise(channels)
    parts = [part for a, b in pairs for part in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))]
    return nn.Sequential(*parts, nn.Flatten(), perceptron(channels[-1] * 16, wide, wide, CLASSES))


def _labelled(*shape: int) -> Callable[[], Batch]:
    return lambda: (torch.randn(shape), torch.randint(0, CLASSES, shape[:1]))


def _layers(number: int, width: int, rows: int, optimizer: Optimizer) -> Case:
    sizes = [*([width] * number), CLASSES]
    return Case(lambda: alive(perceptron(width, *sizes)), _labelled(rows, width), classified, optimizer)


def _pictures(rows: int, optimizer: Optimizer) -> Case:
    return Case(lambda: alive(convolutional(32, 2048)), _labelled(rows, 3, 32, 32), classified, optimizer)


def _tokens(vocabulary: int, length: int, rows: int) -> Case:
    return Case(
        lambda: GPT(vocabulary, length, 256, 4, 4),
        lambda: (torch.randint(0, vocabulary, (rows, length)), torch.randint(0, vocabulary, (rows, length))),
        next_token,
        AdamW(),
    )


_OPTIMIZERS: Mapping[str, Optimizer] = {"AdamW": AdamW(), "FTRL": FTRL(0.01)}
_SIZES = (
    (16, 1024, 16, "AdamW"), (16, 1024, 32, "AdamW"), (16, 1024, 64, "AdamW"),
    (16, 1024, 64, "FTRL"), (16, 1024, 96, "FTRL"), (16, 1024, 128, "FTRL"),
    (6, 512, 32, "AdamW"), (6, 512, 64, "FTRL"),
)  # fmt: skip
"""Layers, their width, rows of a batch, optimizer."""
CASES: dict[str, Case] = {
    **{
        f"{number} layers of {width}, {rows} rows, {name}": _layers(number, width, rows, _OPTIMIZERS[name])
        for number, width, rows, name in _SIZES
    },
    **{f"convolutions, 16 rows, {name}": _pictures(16, rule) for name, rule in _OPTIMIZERS.items()},
    "GPT, 4 layers of 256, 64 rows, AdamW": _tokens(8192, 64, 1),
}
"""By name. Backward pass and updates take as long as one another with few rows for AdamW, which waits for memory, and
with some 100 for FTRL, which computes; six layers of 512 and what is kept of them stay in a last cache of 32 MiB."""
