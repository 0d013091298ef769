"""Models with a loss and batches, each small enough to be trained a hundred steps in a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CLASSES, VOCABULARY = 5, 32
Batch = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Task:
    model: nn.Module
    loss: Callable[..., Tensor]
    batches: Sequence[Batch]


def classified(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), labels)


class Attention(nn.Module):
    """A block of a language model, its embedding tied to what tells the next token."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        return self.head(x + self.mlp(self.second(x)))


def next_token(model: nn.Module, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.GRU | nn.LSTM]) -> None:
        super().__init__()
        self.cells = kind(8, 16, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


def _task(model: Callable[[], nn.Module], loss: Callable[..., Tensor], batch: Callable[[], Batch]) -> Task:
    torch.manual_seed(0)
    return Task(model(), loss, [batch() for _ in range(4)])


def _labelled(*shape: int) -> Callable[[], Batch]:
    return lambda: (torch.randn(*shape), torch.randint(0, CLASSES, shape[:1]))


def mlp() -> Task:
    return _task(
        lambda: nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, CLASSES)),
        classified,
        _labelled(16, 8),
    )


def convolution() -> Task:
    return _task(
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES),
        ),
        classified,
        _labelled(6, 3, 16, 16),
    )  # fmt: skip


def attention() -> Task:
    return _task(Attention, next_token, lambda: (torch.randint(0, VOCABULARY, (4, 12)),))


def gru() -> Task:
    return _task(lambda: Recurrent(nn.GRU), classified, _labelled(4, 3, 8))


def lstm() -> Task:
    return _task(lambda: Recurrent(nn.LSTM), classified, _labelled(4, 3, 8))


TASKS: dict[str, Callable[[], Task]] = {
    "mlp": mlp, "convolution": convolution, "attention": attention, "gru": gru, "lstm": lstm,
}  # fmt: skip
