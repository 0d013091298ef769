"""Half-precision weights where they are used, the full-precision master and its state where memory is plenty."""

from __future__ import annotations

import torch
from torch import Tensor

from hetpart.training.optimizers.blocks import all_contiguous, flat_blocks
from hetpart.training.optimizers.protocol import Optimizer, State


@torch.no_grad()
def update_master_(  # noqa: PLR0913 - an update of two copies of one parameter
    optimizer: Optimizer,
    master: Tensor,
    weight: Tensor,
    gradient: Tensor,
    state: State,
    *,
    step: int,
    lr: float,
    scale: float = 1.0,
) -> None:
    """Update ``master`` in place from a gradient of any dtype and round it into ``weight``, in one pass over memory.

    ``master``, ``weight``, ``gradient`` and the states have one shape. The rest is as in ``Optimizer.update_``.
    """
    names = optimizer.state_names
    states = [state[name] for name in names]
    if not all_contiguous(master, weight, gradient, *states):
        optimizer.update_(master, gradient, state, step, lr, scale)
        weight.copy_(master)
        return
    for block, rounded, slopes, *parts in flat_blocks(master, weight, gradient, *states):
        optimizer.update_(block, slopes, dict(zip(names, parts, strict=True)), step, lr, scale)
        rounded.copy_(block)
