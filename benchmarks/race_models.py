"""The models of ``benchmarks.gpu_race``: what is built, in which sizes, and a small variant of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.zoo import ZOO, ZooModel, built

_EXPORTED = "benchmarks.models.exported:build"
CONTEXT = 512
"""Positions of the decoder's cache."""


@dataclass(frozen=True, slots=True)
class Race:
    """A model in one size."""

    file: str
    """The model's name, which several sizes share."""
    model: ZooModel
    shape: Mapping[str, int] = field(default_factory=dict[str, int])
    whole: tuple[str, ...] = ()
    """Classes of its PyTorch module that Accelerate must not split; there is no such module where there are none."""

    def path(self, folder: Path) -> Path:
        """The model's file, built first where it is absent."""
        return built(self.model, folder / f"{self.file}.onnx")


def _decoder(file: str, config: Mapping[str, Any], shape: Mapping[str, int]) -> Race:
    layers = range(config["n_layer"])
    states = tuple((f"{kind}_cache.{i}", f"{kind}_cache_out.{i}") for kind in ("key", "value") for i in layers)
    return Race(file, ZooModel(_EXPORTED, config, states=states), shape, ("GPT2Block",))


def _gpt2_xl(batch: int, seq: int) -> Race:
    """1.56 billion parameters (Radford et al. 2019)."""
    config = {"family": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25}
    return _decoder("gpt2-xl", config, {"batch": batch, "seq": seq, "context": CONTEXT})


def _gpt2_tiny(batch: int, seq: int) -> Race:
    return _decoder("gpt2-tiny", ZOO["gpt2-tiny"].options, {"batch": batch, "seq": seq, "context": 128})


_T5_LARGE = {"family": "t5", "d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
_T5_TINY = {"family": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 1000}
_VIT_H = {
    "family": "vit", "hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16,
    "intermediate_size": 5120, "patch_size": 14,
}  # fmt: skip
"""ViT-H/14 (Dosovitskiy et al. 2021)."""

RACES: Mapping[str, Race] = {
    "t5-large": Race("t5-large", ZooModel(_EXPORTED, _T5_LARGE), {"batch": 1, "seq": 512, "target": 64}, ("T5Block",)),
    "decoder, prefill 512": _gpt2_xl(1, 512),
    "decoder, decode 1": _gpt2_xl(1, 1),
    "decoder, decode 8": _gpt2_xl(8, 1),
    "decoder, decode 64": _gpt2_xl(64, 1),
    "vit-h": Race("vit-h", ZooModel(_EXPORTED, _VIT_H), {"batch": 8}, ("ViTLayer",)),
    # Tables are 99 % of its weights: they exceed every budget below the footprint.
    "dlrm": Race("dlrm", ZOO["dlrm"], {"batch": 2048}),
}
TINY: Mapping[str, Race] = {
    "t5-large": Race("t5-tiny", ZooModel(_EXPORTED, _T5_TINY), {"batch": 1, "seq": 16, "target": 4}, ("T5Block",)),
    "decoder, prefill 512": _gpt2_tiny(1, 64),
    "decoder, decode 1": _gpt2_tiny(1, 1),
    "decoder, decode 8": _gpt2_tiny(8, 1),
    "decoder, decode 64": _gpt2_tiny(64, 1),
    "vit-h": Race("vit-tiny", ZOO["vit-tiny"], {"batch": 2}, ("ViTLayer",)),
    "dlrm": Race("dlrm-tiny", ZOO["dlrm-tiny"], {"batch": 64}),
}
"""The same rows on the small models of the tests."""
