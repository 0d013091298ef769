"""Transformers with seeded random weights, exported by ``torch.onnx`` from their configurations."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
    WhisperConfig,
)
from transformers import WhisperForConditionalGeneration as WhisperModel
from transformers.cache_utils import Cache

EXTERNAL_DATA_BYTES = 100_000_000
"""Weights above this many bytes go to a file of their own."""
EAGER = "eager"
"""Attention as plain matrix products: what exports cleanly."""

Dimensions = dict[int, str]


@dataclass(frozen=True, slots=True)
class Traced:
    """A module with example inputs, ready to export. Names and dimensions stand in the order of the arguments.

    No two inputs may be the same tensor: the exporter takes them for one input.
    """

    module: nn.Module
    inputs: Mapping[str, Tensor | tuple[Tensor, ...]]
    dynamic: Mapping[str, Dimensions | tuple[Dimensions, ...]]
    outputs: tuple[str, ...]

    @property
    def input_names(self) -> list[str]:
        """Names of the flattened inputs: entries of a tuple are numbered."""
        flat = (
            [name] if isinstance(x, Tensor) else [f"{name}.{i}" for i in range(len(x))]
            for name, x in self.inputs.items()
        )
        return [name for names in flat for name in names]


def build(path: Path, *, family: str, seed: int = 0, **config: int) -> Path:
    """Writes a model of ``family``. ``optimize=False``: the default optimiser drops constants near 1e-8."""
    return save_traced(path, FAMILIES[family](seed=seed, **config))


def save_traced(path: Path, traced: Traced) -> Path:
    """Exports ``traced`` to ``path``, large weights beside it."""
    with _quiet():
        program = torch.onnx.export(
            traced.module.eval(),
            tuple(traced.inputs.values()),
            dynamo=True,
            optimize=False,
            input_names=traced.input_names,
            output_names=list(traced.outputs),
            dynamic_shapes=tuple(traced.dynamic.values()),
            verbose=False,
        )
    assert program is not None
    nbytes = sum(parameter.nbytes for parameter in traced.module.parameters())
    program.save(path, external_data=nbytes > EXTERNAL_DATA_BYTES)
    return path


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides what the exporter says about itself: deprecations, and that torchvision is not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logger.setLevel(level)


def bert(*, seed: int, **config: int) -> Traced:
    """BERT-base unless ``config`` says otherwise."""
    torch.manual_seed(seed)
    shape = (2, 16)
    axes = {0: "batch", 1: "seq"}
    return Traced(
        BertModel(BertConfig(attn_implementation=EAGER, **config)),
        {"input_ids": torch.ones(shape, dtype=torch.int64), "attention_mask": torch.ones(shape, dtype=torch.int64)},
        {"input_ids": axes, "attention_mask": axes},
        ("last_hidden_state", "pooler_output"),
    )


class _ScatteredCache(Cache):
    """A key-value cache of fixed length: new rows are scattered to ``positions`` of the tensors it was given."""

    def __init__(self, keys: tuple[Tensor, ...], values: tuple[Tensor, ...], positions: Tensor) -> None:
        super().__init__(layers=[])
        self.keys, self.values, self.positions = list(keys), list(values), positions

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        rows = self.positions[:, None, :, None].expand_as(key_states)
        self.keys[layer_idx] = torch.scatter(self.keys[layer_idx], 2, rows, key_states)
        self.values[layer_idx] = torch.scatter(self.values[layer_idx], 2, rows, value_states)
        return self.keys[layer_idx], self.values[layer_idx]

    def get_seq_length(self, *_: object) -> int:
        return 0


class _CachedGPT2(nn.Module):
    """GPT-2 whose cache is a graph input and, with the new rows in it, a graph output of the same shape."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, positions: Tensor, keys: tuple[Tensor, ...], values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        cache = _ScatteredCache(keys, values, positions)
        slots = torch.arange(keys[0].shape[2])
        visible = slots[None, None, None, :] <= positions[:, None, :, None]
        mask = torch.zeros_like(visible, dtype=torch.float32).masked_fill(~visible, torch.finfo(torch.float32).min)
        result = self.model(
            input_ids=input_ids, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True
        )
        return (result.logits, *cache.keys, *cache.values)


def gpt2(*, seed: int, **config: int) -> Traced:
    """GPT-2 (124M) unless ``config`` says otherwise; its cache holds ``context`` positions."""
    torch.manual_seed(seed)
    settings = GPT2Config(attn_implementation=EAGER, **config)
    model = GPT2LMHeadModel(settings)
    ids = torch.ones(2, 3, dtype=torch.int64)
    shape = (2, settings.n_head, 12, settings.n_embd // settings.n_head)
    keys, values = (tuple(torch.zeros(shape) for _ in range(settings.n_layer)) for _ in range(2))
    axes = {0: "batch", 1: "seq"}
    cache_axes = tuple({0: "batch", 2: "context"} for _ in keys)
    layers = range(settings.n_layer)
    return Traced(
        _CachedGPT2(model),
        {"input_ids": ids, "positions": torch.arange(3).expand(2, 3), "key_cache": keys, "value_cache": values},
        {"input_ids": axes, "positions": axes, "key_cache": cache_axes, "value_cache": cache_axes},
        ("logits", *(f"key_cache_out.{i}" for i in layers), *(f"value_cache_out.{i}" for i in layers)),
    )


class _Whisper(nn.Module):
    """Encoder and decoder in one graph."""

    def __init__(self, model: WhisperModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> tuple[Tensor]:
        result = self.model(input_features=input_features, decoder_input_ids=decoder_input_ids, use_cache=False)
        return (result.logits,)


def whisper(*, seed: int, **config: int) -> Traced:
    """Whisper-base unless ``config`` says otherwise."""
    torch.manual_seed(seed)
    base = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8}
    base |= {"decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    settings = WhisperConfig(attn_implementation=EAGER, **(base | config))
    return Traced(
        _Whisper(WhisperModel(settings)),
        {
            "input_features": torch.zeros(2, settings.num_mel_bins, 2 * settings.max_source_positions),
            "decoder_input_ids": torch.ones(2, 5, dtype=torch.int64),
        },
        {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "seq"}},
        ("logits",),
    )


class _T5(nn.Module):
    """Encoder and decoder in one graph."""

    def __init__(self, model: T5ForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> tuple[Tensor]:
        return (self.model(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False).logits,)


def t5(*, seed: int, **config: int) -> Traced:
    """T5-small unless ``config`` says otherwise."""
    torch.manual_seed(seed)
    return Traced(
        _T5(T5ForConditionalGeneration(T5Config(attn_implementation=EAGER, **config))),
        {
            "input_ids": torch.ones(2, 7, dtype=torch.int64),
            "decoder_input_ids": torch.ones(2, 5, dtype=torch.int64),
        },
        {"input_ids": {0: "batch", 1: "seq"}, "decoder_input_ids": {0: "batch", 1: "target"}},
        ("logits",),
    )


def vit(*, seed: int, **config: int) -> Traced:
    """ViT-base unless ``config`` says otherwise."""
    torch.manual_seed(seed)
    settings = ViTConfig(attn_implementation=EAGER, **config)
    pixels = torch.zeros(2, settings.num_channels, settings.image_size, settings.image_size)
    return Traced(
        ViTModel(settings),
        {"pixel_values": pixels},
        {"pixel_values": {0: "batch"}},
        ("last_hidden_state", "pooler_output"),
    )


FAMILIES: Mapping[str, Callable[..., Traced]] = {"bert": bert, "gpt2": gpt2, "whisper": whisper, "t5": t5, "vit": vit}
