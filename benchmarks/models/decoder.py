"""A deep GPT-2 that reads a whole prompt at once, exported op by op: a graph of about ten thousand nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.models.exported import EAGER, Traced, save_traced

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = 96


class _Prompt(nn.Module):
    """Token ids → logits, no cache."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> tuple[Tensor]:
        return (self.model(input_ids=input_ids, use_cache=False).logits,)


def build(path: Path, *, seed: int = 0, layers: int = LAYERS) -> Path:
    """Writes GPT-2 small, ``layers`` deep, to ``path`` and its weights beside it."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(attn_implementation=EAGER, n_layer=layers))
    ids = torch.ones(2, 5, dtype=torch.int64)
    traced = Traced(_Prompt(model), {"input_ids": ids}, {"input_ids": {0: "batch", 1: "seq"}}, ("logits",))
    return save_traced(path, traced)
