# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
"""Pieces of models whose gradients have gone wrong in one exporter or another, each with parameters of its own.

Every piece is a module that is called without arguments and returns a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

ROWS, CLASSES = 6, 5
LETTERS = torch.tensor([[1, 2, 3], [4, 1, 0]])
SOME = torch.tensor([0, 4, -100, 2, -100, 3])
"""Labels, two of which say nothing."""
LABELS = torch.tensor(
    [[3, 0, -1, 1, 2], [1, -1, 0, 0, 0], [4, 3, 2, -1, -1], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [2, -1, 2, 2, 2]]
)
"""Of which those from the first -1 on say nothing."""


class Piece(nn.Module):
    """A module, or a parameter, and the loss of it."""

    def __init__(self, held: Any, loss: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.held = held if isinstance(held, nn.Module) else nn.Parameter(held)
        self._loss = loss

    def forward(self) -> Tensor:
        return self._loss(self.held)


def _drawn(*shape: int) -> Tensor:
    return torch.randn(*shape)


def _of(module: nn.Module, *shape: int) -> Piece:
    """The mean of weighted squares of what a module makes of numbers."""
    x = _drawn(*shape)
    return Piece(module, lambda held: _squares(held(x)))


def _squares(made: Any) -> Tensor:
    made = made[0] if isinstance(made, tuple) else made
    places = torch.arange(made.numel(), dtype=made.dtype).reshape(made.shape)
    return ((made - torch.cos(places)) ** 2).mean()


def _on(code: Callable[[Tensor], Tensor], *shape: int) -> Piece:
    return Piece(_drawn(*shape), lambda held: _squares(code(held)))


def _logits(loss: Callable[[Tensor], Tensor]) -> Piece:
    return Piece(_drawn(ROWS, CLASSES), loss)


def _anew(code: Callable[[Any], Tensor], x: Tensor) -> Tensor:
    """What a backward pass computes anew."""
    made: Any = checkpoint(code, x, use_reentrant=False)
    return made


def _turned(code: Callable[[Tensor], Tensor]) -> Piece:
    """Of a matrix and a parameter that do not lie in rows."""
    matrix = _drawn(4, 4) + 3 * torch.eye(4)
    return Piece(matrix.mT.contiguous().mT, lambda held: _squares(code(held)) + _squares(code(1.5 * held.mT)))


def _in_place(x: Tensor) -> Tensor:
    x = x * 1.0
    x[1:3] *= 2.0
    x[:, 0].add_(x[:, 1])
    return x.relu_()


def _frozen(x: Tensor) -> Tensor:
    with torch.no_grad():
        factor = 3 * x
    return x * factor


BOUNDS = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 6.0, 7.0])
GRID = torch.linspace(-0.9, 0.8, 24).reshape(1, 3, 4, 2)
HELD = torch.arange(20).reshape(4, 5) % 3 > 0
IDS = torch.tensor([[1, 2, 2], [0, 8, 1]])
MASK = torch.tensor([[0.0, -torch.inf, 0.0, 0.0]] * 4)
PIECES: dict[str, Callable[[], nn.Module]] = {
    "convolution, dilated, of groups": lambda: _of(nn.Conv2d(4, 4, 3, dilation=2, groups=2), 2, 4, 7, 9),
    "convolution, transposed": lambda: _of(nn.ConvTranspose2d(3, 2, 3, stride=2, output_padding=1), 1, 3, 3, 4),
    "instance norm": lambda: _of(nn.InstanceNorm1d(3, affine=True, track_running_stats=True), 2, 3, 4),
    "spectral norm": lambda: _of(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), 2, 4),
    "adaptive max pool": lambda: _on(lambda x: functional.adaptive_max_pool2d(x, 3), 1, 2, 7, 7),
    "average pool": lambda: _on(lambda x: functional.avg_pool2d(x, 3, stride=2, padding=1), 1, 2, 7, 7),
    "max pool in three dimensions": lambda: _on(lambda x: functional.max_pool3d(x, 2), 1, 2, 4, 4, 4),
    "upsampled": lambda: _on(lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), 1, 2, 3, 4),
    "grid sampled": lambda: _on(lambda x: functional.grid_sample(x, GRID, align_corners=False), 1, 2, 5, 5),
    "weight norm": lambda: _of(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), 2, 4),
    "distances": lambda: _on(lambda x: torch.cdist(x, 2 * x + 1), 4, 3),
    "scattered under a mask": lambda: _on(lambda x: torch.zeros(4, 5).masked_scatter(HELD, x), 4, 5),
    "replicated": lambda: _on(lambda x: functional.pad(x, (1, 2), mode="replicate"), 1, 2, 5),
    "embedding": lambda: Piece(nn.Embedding(9, 4, padding_idx=1), lambda held: _squares(held(IDS))),
    "embedding bag, max": lambda: Piece(
        nn.EmbeddingBag(9, 4, mode="max"), lambda held: _squares(held(IDS.flatten(), torch.tensor([0, 2, 2])))
    ),
    "attention, masked": lambda: _on(lambda x: functional.scaled_dot_product_attention(x, x, x, MASK), 1, 2, 4, 3),
    "cross entropy, class weights": lambda: _logits(
        lambda x: functional.cross_entropy(x, SOME, weight=torch.linspace(0.5, 2.0, CLASSES), label_smoothing=0.1)
    ),
    "cross entropy, sum": lambda: _logits(lambda x: functional.cross_entropy(x, SOME, reduction="sum")),
    "cross entropy, probabilities": lambda: _logits(
        lambda x: functional.cross_entropy(x, torch.linspace(0, 1, ROWS * CLASSES).reshape(ROWS, CLASSES))
    ),
    "a tiny number": lambda: Piece(torch.zeros(3, 4), lambda held: ((held + 1e-7) / (held**2 + 1e-8)).mean()),
    "a tiny number under a root": lambda: Piece(torch.full((3,), 1e-4), lambda held: (held**2 + 1e-8).sqrt().sum()),
    "in place": lambda: _on(_in_place, 4, 5),
    "recomputed": lambda: _on(lambda x: _anew(lambda y: (y.exp() * y).tanh(), x), 4, 5),
    "without gradients": lambda: _on(_frozen, 4, 5),
    "relu6 at its bounds": lambda: Piece(BOUNDS.clone(), lambda held: _squares(functional.relu6(held))),
    "hardtanh at its bounds": lambda: Piece(BOUNDS.clone(), lambda held: _squares(functional.hardtanh(held))),
    "determinant, turned": lambda: _turned(torch.linalg.det),
    "logarithm of a determinant, turned": lambda: _turned(lambda x: torch.linalg.slogdet(x).logabsdet),
    "logarithms of determinants, turned": lambda: _turned(
        lambda x: torch.stack([x @ x, 2 * x @ x], -1).permute(2, 1, 0).logdet()
    ),
    "inverse, turned": lambda: _turned(torch.linalg.inv),
    "solved, turned": lambda: _turned(lambda x: torch.linalg.solve(x, torch.linspace(-1, 1, 8).reshape(4, 2))),
    "factors, turned": lambda: _turned(lambda x: torch.linalg.lu_factor(x).LU),
    "powers, turned": lambda: _turned(lambda x: torch.linalg.matrix_power(x, -2)),
    "Cholesky's factor, turned": lambda: _turned(lambda x: torch.linalg.cholesky(x.mT @ x)),
    "orthogonal, turned": lambda: _turned(lambda x: torch.linalg.qr(x).Q),
    "eigenvalues, turned": lambda: _turned(lambda x: torch.linalg.eigvalsh(x + x.mT)),
    "exponential of a matrix, turned": lambda: _turned(lambda x: torch.linalg.matrix_exp(0.2 * x)),
    "ctc": lambda: Piece(
        _drawn(9, 2, 5),
        lambda held: functional.ctc_loss(held.log_softmax(-1), LETTERS, torch.tensor([9, 7]), torch.tensor([3, 2])),
    ),
    "phases of a spectrum": lambda: _on(
        lambda x: torch.fft.rfft(x.detach()).angle() * torch.fft.fft(x).angle()[:, :4], 4, 6
    ),
    "constants": lambda: _on(lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3), 4, 3),
    "recomputed in what is recomputed": lambda: _on(
        lambda x: _anew(
            lambda y: _anew(lambda z: z.exp() * z, y).tanh(), 0.5 * x
        ),
        4, 5,
    ),
    "margins of many labels": lambda: _logits(lambda x: functional.multilabel_margin_loss(x, LABELS)),
    "margins of one label": lambda: _logits(lambda x: functional.multi_margin_loss(x, SOME.clamp(min=0), p=2)),
}  # fmt: skip
