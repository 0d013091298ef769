"""Transformers and convolutions as PyTorch's exporter writes them, small and with weights of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TEXT = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100,
    "max_position_embeddings": 64,
}  # fmt: skip
_IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 100}
_EAGER = {"attn_implementation": "eager"}
_Run = Callable[[Any, Any], Any]


def _logits(model: Any, tokens: Any) -> Any:
    return model(input_ids=tokens, use_cache=False).logits


def _first(model: Any, given: Any) -> Any:
    return model(given, return_dict=False)[0]


EXPORTED: dict[str, tuple[str, str, dict[str, Any], _Run]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", _TEXT | {"num_key_value_heads": 2}, _logits),
    "gpt2 written out": (
        "GPT2LMHeadModel", "GPT2Config",
        {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 100, "n_positions": 64} | _EAGER, _logits,
    ),
    "bert": ("BertModel", "BertConfig", _TEXT, _first),
    "clip text": ("CLIPTextModel", "CLIPTextConfig", _TEXT | {"eos_token_id": 99} | _EAGER, _first),
    "clip vision": ("CLIPVisionModel", "CLIPVisionConfig", _IMAGE, _first),
    "t5 encoder": ("T5EncoderModel", "T5Config", _T5, _first),
    "mobilenet": ("MobileNetV2Model", "MobileNetV2Config", {"image_size": 32, "depth_multiplier": 0.25}, _first),
    "resnet": ("ResNetModel", "ResNetConfig", {"embedding_size": 16, "hidden_sizes": [16], "depths": [1]}, _first),
}  # fmt: skip
"""By name: the model and configuration of ``transformers``, its sizes, and how it is called."""


def export(name: str, path: Path) -> Path:
    """Write the model of that name to ``path``."""
    import torch
    import transformers

    kind, configuration, sizes, run = EXPORTED[name]
    model = getattr(transformers, kind)(getattr(transformers, configuration)(**sizes)).eval()
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data.add_(0.02 * torch.randn(weight.shape, generator=generator))

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, given: torch.Tensor) -> Any:
            return run(self.model, given)

    images = "image_size" in sizes or kind == "ResNetModel"
    given = torch.randn(1, 3, 32, 32, generator=generator) if images else torch.arange(8)[None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Called(), (given,), path, dynamo=True, external_data=False, verbose=False)
    return path
