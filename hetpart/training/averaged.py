# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""Batch normalisation whose running statistics are the mean of all batches': its rate is a number of a state."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def averaged(model: nn.Module) -> Generator[None]:
    """Layers with ``momentum=None`` take their rate as a tensor: PyTorch asks for its number, which no trace has."""
    found = [layer for layer in model.modules() if isinstance(layer, _BatchNorm) and _is_averaged(layer)]
    for layer in found:
        vars(layer)["forward"] = partial(_normalized, layer)
    try:
        yield
    finally:
        for layer in found:
            del vars(layer)["forward"]


def _is_averaged(layer: _BatchNorm) -> bool:
    return (
        type(layer).forward is _BatchNorm.forward
        and "forward" not in vars(layer)
        and layer.momentum is None
        and layer.num_batches_tracked is not None
    )


def _normalized(layer: _BatchNorm, batch: Tensor) -> Tensor:
    """As ``_BatchNorm.forward``: statistics of this batch are taken by themselves, and have their share of the mean.

    Whether it trains is asked when it is called: a loss may put a layer into either state.
    """
    if not layer.training:
        return _BatchNorm.forward(layer, batch)
    layer._check_input_dim(batch)
    assert layer.num_batches_tracked is not None
    assert layer.running_mean is not None
    assert layer.running_var is not None
    layer.num_batches_tracked.add_(1)
    own = torch.zeros_like(layer.running_mean), torch.ones_like(layer.running_var)
    made = nn.functional.batch_norm(batch, *own, layer.weight, layer.bias, True, 1.0, layer.eps)
    with torch.no_grad():
        rate = 1.0 / layer.num_batches_tracked.to(own[0].dtype)
        layer.running_mean.lerp_(own[0], rate)
        layer.running_var.lerp_(own[1], rate)
    return made
