"""Models in bfloat16, which ONNX Runtime has next to no kernels for on the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import hetpart
from tests.pytorch.test_weights import write_sharded

EMULATED = "emulated"


def tiny_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=160, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    return config, LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("placement", ["all-cpu", "random:1"])
def test_a_model_from_its_configuration_runs_from_sharded_files(tmp_path: Path, placement: str) -> None:
    from transformers import LlamaForCausalLM

    config, plain = tiny_llama()
    module = plain.to(torch.bfloat16)
    write_sharded(module, tmp_path / "weights")
    ids = torch.arange(12).reshape(2, 6)
    with torch.device("meta"):
        empty = LlamaForCausalLM(config).eval().to(torch.bfloat16)
    planned = hetpart.partition(
        empty, kwargs={"input_ids": ids}, weights=tmp_path / "weights", hardware=EMULATED, placement=placement
    )
    with torch.no_grad():
        wanted, exact = module(ids).logits, plain.float()(ids).logits
    bundle = planned.save(tmp_path / "llama.hetpart")
    assert {file.suffix for file in bundle.iterdir()} == {".onnx", ".json"}
    assert {Path(file.path).suffix for file in planned.plan.model.files} == {".safetensors"}
    found = planned.to_module(emulate=True)(input_ids=ids)
    made = found.logits if hasattr(found, "logits") else found["logits"]
    assert made.dtype == torch.bfloat16
    # As far from what float32 gives as eager PyTorch is, or nearer: between two ops nothing is rounded.
    assert (made.float() - exact).abs().max() <= 1.5 * (wanted.float() - exact).abs().max()
