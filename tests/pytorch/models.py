"""Small PyTorch models with seeded random weights, and calls of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A module, and an example call of it."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None

    def result(self) -> Any:
        with torch.no_grad():
            return self.module(*self.args, **self.kwargs)


class Called(nn.Module):
    """Code as a module."""

    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, *given: Tensor) -> Any:
        return self.code(*given)


Piece = tuple[Callable[..., Any], tuple[Tensor, ...]]
"""Code, and tensors that it is called with."""


def together(pieces: Mapping[str, Piece]) -> Piece:
    """Several pieces as one: by name what each makes of tensors that no other one is given."""

    def code(*given: Tensor) -> dict[str, Any]:
        left = iter(given)
        return {name: piece(*islice(left, len(example))) for name, (piece, example) in pieces.items()}

    return code, tuple(copy.deepcopy(tensor) for _, example in pieces.values() for tensor in example)


class MLP(nn.Module):
    """Two layers with weights large enough to lie apart from the model, and their activation in between."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x))) + x


class TwoGraphs(nn.Module):
    """Dynamo makes a graph of either half."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = MLP(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


def mlp() -> Case:
    torch.manual_seed(0)
    return Case(MLP().eval(), (torch.randn(3, 64),))


class Styles(nn.Module):
    """Arguments by position and name, one of them a number, and results of every kind in a nest."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x: Tensor, times: int, *, mask: Tensor, pair: tuple[Tensor, Tensor]) -> dict[str, Any]:
        kept = torch.where(mask, x * self.scale * times, pair[0])
        return {"kept": kept, "nest": [kept > 0, None, (x, pair[1] + 1)], "again": kept, "times": times}


def styles() -> Case:
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    given = {"pair": (torch.randn(3, 4), torch.arange(3)), "mask": torch.tensor([True, False, True, True])}
    return Case(Styles(), (x, 3), given)


class Shared(nn.Module):
    """One module called twice, and weights under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.step = nn.Linear(64, 64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.step(self.step(self.embed(ids)))))


def shared() -> Case:
    torch.manual_seed(2)
    return Case(Shared().eval(), (torch.arange(6).reshape(2, 3),), dynamic_shapes={"ids": {0: "batch", 1: "seq"}})


def bert() -> Case:
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32,
    )  # fmt: skip
    ids = torch.arange(16).reshape(2, 8)
    return Case(BertModel(config).eval(), (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(4)
    config = GPT2Config(
        vocab_size=200, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, use_cache=False
    )
    return Case(GPT2LMHeadModel(config).eval(), (), {"input_ids": torch.arange(16).reshape(2, 8)})


CASES: Mapping[str, Callable[[], Case]] = {"mlp": mlp, "styles": styles, "shared": shared, "bert": bert, "gpt2": gpt2}
