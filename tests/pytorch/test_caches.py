"""Decoders of transformers as their users call them: with the caches that they take and return."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from transformers import (
    DynamicCache,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaModel,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.cache_utils import LinearAttentionLayer

import hetpart
from hetpart.errors import InvalidFeedError, InvalidModelError
from hetpart.frontend.caches import know_caches

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


def small(config: type, model: type) -> torch.nn.Module:
    made = config(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, sliding_window=4, pad_token_id=0,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return model(made).eval()


def at(past: Any, place: int) -> dict[str, Any]:
    """A call with the token at ``place``."""
    return {"input_ids": TOKENS[:, place : place + 1], "past_key_values": past}


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(tensors(ours), tensors(theirs))
    assert ours.past_key_values.get_seq_length() == theirs.past_key_values.get_seq_length()
    assert [type(layer) for layer in ours.past_key_values.layers] == [
        type(layer) for layer in theirs.past_key_values.layers
    ]


TOKENS = torch.arange(2, 14)[None]


def test_a_prompt_past_a_sliding_window_returns_what_the_window_sees() -> None:
    model, prompt = small(MistralConfig, MistralForCausalLM), {"input_ids": TOKENS[:, :6]}
    with torch.no_grad():
        planned = hetpart.partition(model, kwargs=prompt, hardware=EMULATED, placement="random:1")
        same(planned.to_module(emulate=True)(**prompt), model(**prompt))


@pytest.mark.parametrize(
    ("config", "kind", "steps"),
    [(MistralConfig, MistralForCausalLM, 3), (Gemma2Config, Gemma2ForCausalLM, 1)],  # half of Gemma's layers grow
)
def test_one_plan_decodes_past_a_sliding_window(config: type, kind: type, steps: int) -> None:
    torch.manual_seed(0)
    model = small(config, kind)
    with torch.no_grad():
        first = model(input_ids=TOKENS[:, :6])
        ours, theirs = copy.deepcopy(first), first
        planned = hetpart.partition(model, kwargs=at(first.past_key_values, 6), hardware=EMULATED, placement="random:1")
        step = planned.to_module(emulate=True)
        for place in range(6, 6 + steps):
            ours, theirs = step(**at(ours.past_key_values, place)), model(**at(theirs.past_key_values, place))
            same(ours, theirs)
        same(model(**at(ours.past_key_values, 9)), model(**at(theirs.past_key_values, 9)))  # eager goes on with ours


def test_a_plan_for_a_cache_that_fills_its_window_is_for_none_that_has_seen_more() -> None:
    model = small(MistralConfig, MistralForCausalLM)
    with torch.no_grad():
        past = model(input_ids=TOKENS[:, :3]).past_key_values
        step = hetpart.partition(model, kwargs=at(past, 3), hardware=EMULATED).to_module(emulate=True)
        made = step(**at(past, 3))
    with pytest.raises(InvalidFeedError, match="cumulative_length_0 is 4, and the plan was made for 3"):
        step(**at(made.past_key_values, 4))


def test_a_cache_of_a_kind_that_is_not_known_is_refused_by_name() -> None:
    past = DynamicCache()
    past.layers.append(LinearAttentionLayer())
    call = {"input_ids": IDS, "past_key_values": past}
    with pytest.raises(InvalidModelError, match="LinearAttentionLayer are not known") as refused:
        hetpart.partition(llama(), kwargs=call, hardware=EMULATED)
    assert "use_cache" in refused.value.hint


def test_others_may_look_into_caches_that_are_not_known() -> None:
    """As without hetpart: what is in such a cache is left alone."""
    config = MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=100, state_size=4)
    know_caches()
    result = MambaModel(config).eval()(input_ids=torch.tensor([[1, 2, 3]]))
    again = pytree.tree_map(lambda leaf: leaf, result)
    assert type(again) is type(result)
    kept = [(type(layer), layer) for layer in result.cache_params.layers]
    assert [(type(layer), layer) for layer in again.cache_params.layers] == kept
