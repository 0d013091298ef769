"""Decoders of transformers as their users call them: with the caches that they take and return."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

import hetpart
from hetpart.errors import InvalidModelError

EMULATED = "emulated"
IDS = torch.arange(5)[None]


def llama(**given: Any) -> torch.nn.Module:
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, **given,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def t5() -> torch.nn.Module:
    config = T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, bos_token_id=0, eos_token_id=1
    )
    return T5ForConditionalGeneration(config).eval()


CASES: dict[str, tuple[Any, dict[str, Tensor], dict[str, Tensor]]] = {
    "decoder": (llama, {"input_ids": IDS}, {"input_ids": IDS[:, 2:3]}),
    "encoder and decoder": (
        t5,
        {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]},
        {"input_ids": IDS, "decoder_input_ids": IDS[:, 2:3]},
    ),
}


def tensors(made: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("name", CASES)
def test_a_decoder_is_planned_with_the_cache_that_it_takes_and_returns(name: str) -> None:
    kind, prompt, step = CASES[name]
    torch.manual_seed(0)
    model = kind()
    with torch.no_grad():
        past = model(**prompt).past_key_values
        calls = [prompt, {**step, "past_key_values": past}]
        for call in calls:
            planned = hetpart.partition(model, kwargs=call, hardware=EMULATED, placement="random:1")
            ours = planned.to_module(emulate=True)(**call)
            theirs = model(**copy.deepcopy(call))
            assert type(ours) is type(theirs)
            assert type(ours.past_key_values) is type(theirs.past_key_values)
            torch.testing.assert_close(tensors(ours), tensors(theirs))
    assert past.get_seq_length() == prompt.get("decoder_input_ids", IDS).shape[1]


def test_a_cache_of_a_kind_that_is_not_known_is_refused_by_name() -> None:
    from transformers import DynamicCache, MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, sliding_window=4,
    )  # fmt: skip
    model = MistralForCausalLM(config).eval()
    call = {"input_ids": IDS, "past_key_values": DynamicCache(config=config)}
    with pytest.raises(InvalidModelError, match="DynamicSlidingWindowLayer are not known") as refused:
        hetpart.partition(model, kwargs=call, hardware=EMULATED)
    assert "use_cache" in refused.value.hint
