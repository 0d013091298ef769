# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Models as they are trained: with their data, a loss, an optimizer of hetpart's, and the same in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn

from hetpart.training import AdamW, Momentum
from hetpart.training.data import Pictures, Tokens

Batch = tuple[Tensor, ...]
Options = Mapping[str, Any]
Eager = Callable[..., float]
"""A training in PyTorch alone: makes an update of a batch, and returns the loss before it."""
DRAWN: Mapping[str, Options] = {
    "all on the host": {"placement": "all-cpu"},
    "all on the accelerator": {"placement": "all-accelerator"},
    "by chance, 1": {"placement": "random:1"},
    "by chance, 2": {"placement": "random:2"},
}


class ByTorch:
    """A module under an optimizer of ``torch.optim``."""

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor], make: Callable[[Any], Any]) -> None:
        self._model, self._loss, self._steps = model, loss, 0
        self._optimizer = make(model.parameters())

    def __call__(self, *batch: Tensor) -> float:
        self._optimizer.zero_grad()
        loss = self._loss(self._model, *batch)
        loss.backward()
        self._optimizer.step()
        self._steps += 1
        return loss.item()

    def state_dict(self) -> dict[str, Any]:
        """What ``Step.load_state_dict`` takes."""
        tensors = {name: tensor.detach().clone() for name, tensor in self._model.named_parameters()}
        for name, parameter in self._model.named_parameters():
            kept = self._optimizer.state[parameter].get("momentum_buffer")
            tensors[f"optimizer/momentum/{name}"] = torch.zeros_like(parameter) if kept is None else kept.clone()
        tensors |= {name: tensor.clone() for name, tensor in self._model.named_buffers()}
        return {"step": self._steps, "tensors": tensors}


@dataclass(frozen=True, slots=True)
class Case:
    """A training to be compared with eager PyTorch."""

    model: Callable[[], nn.Module]
    loss: Callable[..., Tensor]
    data: Iterable[Batch]
    """Its batches, taken in turn."""
    optimizer: Any
    eager: Callable[[nn.Module, Callable[..., Tensor]], Eager]
    steps: int = 100
    from_eager: bool = False
    """Whether every step begins at eager's state, as where rounding is amplified from step to step."""
    placements: Mapping[str, Options] = field(default_factory=lambda: DRAWN)
    """Options of ``hetpart.training.compile``."""

    def batches(self) -> list[Batch]:
        """One for each step."""
        return [tuple(batch) for batch in islice(cycle(self.data), self.steps)]

    def shortened(self, steps: int) -> Case:
        """The same for fewer steps."""
        return replace(self, steps=steps)


def under(make: Callable[..., Any], **options: Any) -> Callable[[nn.Module, Callable[..., Tensor]], Eager]:
    """Eager PyTorch with this class of ``torch.optim``."""
    return lambda model, loss: ByTorch(model, loss, lambda parameters: make(parameters, **options))


def classified(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), labels)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


class Bottleneck(nn.Module):
    """He et al., Deep Residual Learning, CVPR 2016, figure 5, with the stride in its 3 × 3 convolution."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        made = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, made, 1, bias=False), nn.BatchNorm2d(made),
        )  # fmt: skip
        skip = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.skip = nn.Identity() if (given, stride) == (made, 1) else skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """ResNet-50 for pictures of 32 × 32: a 3 × 3 convolution without pooling takes the place of the first layers."""

    def __init__(self, width: int = 64, depths: tuple[int, ...] = (3, 4, 6, 3), classes: int = 10) -> None:
        super().__init__()
        blocks: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        given = width
        for stage, depth in enumerate(depths):
            for place in range(depth):
                blocks.append(Bottleneck(given, width << stage, 2 if stage and not place else 1))
                given = 4 * (width << stage)
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(given, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).mean((2, 3)))


class Layer(nn.Module):
    """One of GPT-2's: attention and a perceptron, each after its own normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    """The table of tokens is tied to what tells the next one."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.last(self.layers(x)))


def next_token(model: nn.Module, ids: Tensor, following: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(ids).flatten(0, 1), following.flatten())


class Recurrent(nn.Module):
    """Tokens through two layers of a GRU."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.cells = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.cells(self.tokens(ids))[0])


NOISE = 8.0
"""Of the pictures of the perceptron: 100 batches do not teach it all, and a loss near nothing would have few digits."""
_PICTURES = Pictures((3, 32, 32), 10, batch_size=4, batches=100)
_MOMENTUM = under(torch.optim.SGD, lr=0.01, momentum=0.9)
_SLOW = under(torch.optim.SGD, lr=1e-3, momentum=0.9)
_ADAMW = under(torch.optim.AdamW, lr=1e-3, weight_decay=0.01)
CASES: dict[str, Case] = {
    "MLP 784-512-512-10": Case(
        mlp, lambda model, x, labels: classified(model, x / NOISE, labels),
        Pictures((1, 28, 28), 10, batch_size=64, batches=100, noise=NOISE), Momentum(0.05),
        under(torch.optim.SGD, lr=0.05, momentum=0.9),
        placements=DRAWN | {"1 and 5 pinned to the host": {"pin": {"1.*": "cpu", "5.*": "cpu"}}},
    ),
    "GPT, 4 layers of 128": Case(
        lambda: GPT(256, 64, 128, 4, 4), next_token, Tokens(256, 64, batch_size=8, batches=20), AdamW(1e-3), _ADAMW
    ),
    "GRU, 2 layers of 64": Case(
        lambda: Recurrent(64, 64), next_token, Tokens(64, 16, batch_size=16, batches=20), AdamW(1e-3), _ADAMW
    ),
    "ResNet-50, from eager's state": Case(ResNet, classified, _PICTURES, Momentum(1e-3), _SLOW, from_eager=True),
    "ResNet-50, float64": Case(
        lambda: ResNet().double(), lambda model, x, labels: classified(model, x.double(), labels), _PICTURES,
        Momentum(1e-3), _SLOW, steps=20, from_eager=True,
    ),
}  # fmt: skip
"""By name."""
