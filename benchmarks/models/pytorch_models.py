"""PyTorch models with random weights: of ``transformers``, from small configurations, and recommenders of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

IDS = torch.arange(16).reshape(2, 8)


@dataclass(frozen=True)
class Called:
    """A module, and an example call of it."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def result(self) -> Any:
        """What eager PyTorch returns."""
        with torch.no_grad():
            return self.module(*self.args, **self.kwargs)


class Cached(nn.Module):
    """A decoder that takes and returns its cache as tensors."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """The logits, and keys and values of every layer: ``past`` with what is new behind it."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.decoder(input_ids=input_ids, past_key_values=cache, use_cache=True)
        rows = [(layer.keys, layer.values) for layer in made.past_key_values.layers]
        return (made.logits, *(part for row in rows for part in row))


def _decoding(decoder: nn.Module, heads: int, size: int) -> Called:
    past = tuple(torch.randn(2, heads, 5, size) for _ in range(4))
    return Called(Cached(decoder.eval()), (torch.tensor([[7], [11]]), *past))


def bert() -> Called:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=32,
    )  # fmt: skip
    mask = torch.ones_like(IDS)
    mask[1, 5:] = 0
    return Called(BertModel(config).eval(), (), {"input_ids": IDS, "attention_mask": mask})


def gpt2() -> Called:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=200, n_positions=32, n_embd=64, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    return _decoding(GPT2LMHeadModel(config), 2, 32)


def llama() -> Called:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=200, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return Called(LlamaForCausalLM(config).eval(), (), {"input_ids": IDS, "use_cache": False})


def mixtral() -> Called:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, num_local_experts=4, experts_implementation="batched_mm",
    )  # fmt: skip
    return _decoding(MixtralForCausalLM(config), 2, 16)


def t5() -> Called:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    call = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4], "use_cache": False}
    return Called(T5ForConditionalGeneration(config).eval(), (), call)


def whisper() -> Called:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=200, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=16,
        max_source_positions=20, max_target_positions=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        decoder_start_token_id=1,
    )  # fmt: skip
    call = {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": IDS[:, :4], "use_cache": False}
    return Called(WhisperForConditionalGeneration(config).eval(), (), call)


def vit() -> Called:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=32, patch_size=8
    )
    return Called(ViTModel(config).eval(), (torch.randn(2, 3, 32, 32),))


def resnet() -> Called:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], layer_type="basic", num_labels=10)
    return Called(ResNetForImageClassification(config).eval(), (torch.randn(2, 3, 32, 32),))


def clip() -> Called:
    from transformers import CLIPConfig, CLIPModel

    part = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    text = {**part, "vocab_size": 200, "max_position_embeddings": 16, "eos_token_id": 2}
    vision = {**part, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    return Called(CLIPModel(config).eval(), (), {"input_ids": IDS, "pixel_values": torch.randn(2, 3, 32, 32)})


class DLRM(nn.Module):
    """Embeddings and dense features, and all their products (Naumov et al. 2019, arXiv 1906.00091)."""

    def __init__(self, rows: tuple[int, ...] = (500, 30, 2000, 100), dim: int = 16, dense: int = 13) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, dim) for count in rows)
        self.bottom = nn.Sequential(nn.Linear(dense, 64), nn.ReLU(), nn.Linear(64, dim), nn.ReLU())
        vectors = len(rows) + 1
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1))
        self.top = nn.Sequential(nn.Linear(dim + vectors * (vectors - 1) // 2, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        """[batch, 13] and [batch, tables] → [batch, 1]."""
        bottom = self.bottom(dense)
        rows = [table(ids[:, place]) for place, table in enumerate(self.tables)]
        vectors = torch.stack([bottom, *rows], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([bottom, products], dim=1)))


def dlrm() -> Called:
    module = DLRM().eval()
    ids = torch.stack([torch.randint(table.num_embeddings, (8,)) for table in module.tables], dim=1)
    return Called(module, (torch.randn(8, 13), ids))


class WideAndDeep(nn.Module):
    """A sum over single weights beside a perceptron over embeddings (Cheng et al. 2016, arXiv 1606.07792)."""

    def __init__(self, rows: int = 2000, fields: int = 10, dim: int = 16) -> None:
        super().__init__()
        self.wide, self.deep = nn.Embedding(rows, 1), nn.Embedding(rows, dim)
        self.layers = nn.Sequential(nn.Linear(fields * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        """Two of [batch, fields] → [batch, 1]."""
        weighed = self.deep(ids) * weights.unsqueeze(-1)
        return torch.sigmoid(self.layers(weighed.flatten(1)) + (self.wide(ids).squeeze(-1) * weights).sum(1, True))


def wide_and_deep() -> Called:
    return Called(WideAndDeep().eval(), (torch.randint(2000, (8, 10)), torch.rand(8, 10)))


class Recurrent(nn.Module):
    """An LSTM and what reads its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, steps, 16] → [batch, 4], and the last state."""
        made, (last, _) = self.lstm(x)
        return self.head(made[:, -1]), last


def lstm() -> Called:
    return Called(Recurrent().eval(), (torch.randn(2, 6, 16),))


class Branching(nn.Module):
    """A way through the model that its data choose."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Linear(32, 32), nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, 32] → the same."""
        return torch.cond(x.mean() > 0, self.long, self.short, (x,)) + x


def cond() -> Called:
    return Called(Branching().eval(), (torch.rand(4, 32),))


class Spectral(nn.Module):
    """An operator in the middle that ONNX has not."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, n, 16] → [batch, 8]: of eigenvalues."""
        y = self.before(x)
        return self.after(torch.linalg.eigvalsh(y.transpose(1, 2) @ y))


def spectral() -> Called:
    return Called(Spectral().eval(), (torch.randn(2, 16, 16),))


MODELS: Mapping[str, Callable[[], Called]] = {
    "BERT": bert, "GPT-2 with cache": gpt2, "Llama": llama, "Mixtral, decoding": mixtral, "T5": t5, "Whisper": whisper,
    "ViT": vit, "ResNet": resnet, "CLIP": clip, "DLRM": dlrm, "Wide&Deep": wide_and_deep, "LSTM": lstm,
    "torch.cond": cond, "eigenvalues": spectral,
}  # fmt: skip


def built(name: str) -> Called:
    """The model of that name with the weights of seed 0."""
    torch.manual_seed(0)
    return MODELS[name]()
