"""FTRL-Proximal: McMahan et al., Ad Click Prediction, KDD 2013, algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from hetpart.training.optimizers.blocks import flat_blocks
from hetpart.training.optimizers.dense import Elementwise, Moment
from hetpart.training.optimizers.protocol import State

_LEAST = 1e-30
"""What roots are taken of at the least: one of 0 takes PyTorch's kernel eight times as long as another (measured on an
AMD EPYC), and most squares of a parameter that few samples reach are 0. A root differs by 1e-15 at most."""


@dataclass(frozen=True, slots=True)
class FTRL(Elementwise):
    """Sparse weights from L1: with n the sum of squared gradients before g, and ``lr`` the paper's α.

    σ = (√(n + g²) − √n) / lr; z += g − σ · w; n += g²; w = 0 where abs(z) ≤ l1, else
    −(z − sign(z) · l1) / ((beta + √n) / lr + l2).

    The weight is a function of z alone after an update: what it was initialised to acts through σ · w only. A rate of 0
    changes nothing. MindSpore and TensorFlow have beta = 0, ``initial_accumulator`` above 0, and count l2 twice.
    """

    lr: float
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    initial_accumulator: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = ("accumulator", "linear")

    def initial(self, name: str) -> float:
        return self.initial_accumulator if name == "accumulator" else 0.0

    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        if not moment.lr:  # as where a schedule begins at 0: what the formulas divide by
            return
        for weight, slope, squares, linear in flat_blocks(parameter, gradient, state["accumulator"], state["linear"]):
            if moment.scale != 1.0:
                slope.mul_(moment.scale)
            self._block_(weight, slope, squares, linear, moment.lr)

    def _block_(self, weight: Tensor, slope: Tensor, squares: Tensor, linear: Tensor, lr: float) -> None:
        before = squares.clamp_min(_LEAST).sqrt_()
        root = squares.addcmul_(slope, slope).clamp_min(_LEAST).sqrt_()
        linear.add_(slope).addcmul_(torch.sub(root, before, out=before), weight, value=-1.0 / lr)
        shrunk = softshrink(linear, self.l1) if self.l1 else linear
        torch.div(shrunk, root.div_(-lr).sub_(self.beta / lr + self.l2), out=weight)
