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
    JambaConfig,
    JambaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaModel,
    MistralConfig,
    MistralForCausalLM,
    ReformerConfig,
    ReformerModel,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.cache_utils import Fp8QuantizedLayer

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
            eager = copy.deepcopy(call)
            ours = planned.to_module(emulate=True)(**call)
            theirs = model(**eager)
            assert type(ours) is type(theirs)
            assert type(ours.past_key_values) is type(theirs.past_key_values)
            torch.testing.assert_close(tensors(ours), tensors(theirs))
            torch.testing.assert_close(tensors(call), tensors(eager))
    assert past.get_seq_length() == prompt.get("decoder_input_ids", IDS).shape[1] + 1


def small(config: type, model: type, layers: int = 1) -> torch.nn.Module:
    made = config(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
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
    model = small(config, kind, layers=2)
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
    with pytest.raises(InvalidFeedError, match=r"cumulative_length_0 == 3, and in this one .*cumulative_length_0 is 4"):
        step(**at(made.past_key_values, 4))


@pytest.mark.parametrize(("kind", "length"), [(LlamaForCausalLM, 2), (MistralForCausalLM, 2), (MistralForCausalLM, 6)])
def test_a_static_cache_is_written_to(kind: type, length: int) -> None:
    """Before and past a window, which Mistral has; the cache is given again and again, as `transformers` shows it."""
    torch.manual_seed(0)
    model = small(kind.config_class, kind)
    theirs = StaticCache(config=model.config, max_cache_len=16)
    with torch.no_grad():
        model(input_ids=TOKENS[:, :length], past_key_values=theirs)
        ours = copy.deepcopy(theirs)
        planned = hetpart.partition(model, kwargs=at(theirs, length), hardware=EMULATED, placement="random:1")
        step = planned.to_module(emulate=True)
        for place in range(length, length + 2):
            same(step(**at(ours, place)), model(**at(theirs, place)))
            torch.testing.assert_close(tensors(ours), tensors(theirs))
        same(model(**at(ours, length + 2)), model(**at(theirs, length + 2)))


def test_a_plan_for_a_static_window_that_is_not_full_is_for_none_that_is() -> None:
    model = small(MistralConfig, MistralForCausalLM)
    past = StaticCache(config=model.config, max_cache_len=16)
    with torch.no_grad():
        model(input_ids=TOKENS[:, :3], past_key_values=past)
        step = hetpart.partition(model, kwargs=at(past, 3), hardware=EMULATED).to_module(emulate=True)
        step(**at(past, 3))
    with pytest.raises(InvalidFeedError, match="cumulative_length_int_0 is 4"):
        step(**at(past, 4))


def test_an_empty_static_cache_is_filled() -> None:
    model = llama()
    calls = [
        {"input_ids": IDS, "past_key_values": StaticCache(config=model.config, max_cache_len=16)} for _ in range(2)
    ]
    with torch.no_grad():
        step = hetpart.partition(model, kwargs=calls[0], hardware=EMULATED).to_module(emulate=True)
        same(step(**calls[0]), model(**calls[1]))
    torch.testing.assert_close(tensors(calls[0]), tensors(calls[1]))


def mamba() -> torch.nn.Module:
    return MambaModel(
        MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=100, state_size=4, conv_kernel=2)
    ).eval()


def reformer() -> torch.nn.Module:
    config = ReformerConfig(
        hidden_size=32, attn_layers=["local", "local"], num_attention_heads=2, attention_head_size=8,
        feed_forward_size=32, axial_pos_shape=[4, 4], axial_pos_embds_dim=[16, 16], vocab_size=64, is_decoder=True,
        max_position_embeddings=16, local_attn_chunk_length=4,
    )  # fmt: skip
    return ReformerModel(config).eval()


def hybrid() -> torch.nn.Module:
    config = JambaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_experts=1, attn_layer_period=2, attn_layer_offset=1, mamba_d_state=4,
        mamba_d_conv=2, use_mamba_kernels=False,
    )  # fmt: skip
    return JambaForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("kind", "name", "length", "steps"),
    [
        (mamba, "cache_params", 3, 3),
        (reformer, "past_buckets_states", 8, 1),  # its cache grows
        (hybrid, "past_key_values", 3, 1),
    ],
)
def test_states_of_other_kinds_go_from_call_to_call(kind: Any, name: str, length: int, steps: int) -> None:
    torch.manual_seed(0)
    model = kind()
    prompt = {"input_ids": TOKENS[:, :length], "use_cache": True}
    with torch.no_grad():
        first = hetpart.partition(model, kwargs=prompt, hardware=EMULATED, placement="random:1")
        made, wanted = first.to_module(emulate=True)(**prompt), model(**prompt)
        torch.testing.assert_close(tensors(made), tensors(wanted))
        ours, theirs = made[name], wanted[name]
        call = {"input_ids": TOKENS[:, length : length + 1], name: ours, "use_cache": True}
        step = hetpart.partition(model, kwargs=call, hardware=EMULATED, placement="random:1").to_module(emulate=True)
        for place in range(length, length + steps):
            token = {"input_ids": TOKENS[:, place : place + 1], "use_cache": True}
            made, wanted = step(**token, **{name: ours}), model(**token, **{name: theirs})
            torch.testing.assert_close(tensors(made), tensors(wanted))
            torch.testing.assert_close(tensors(ours), tensors(theirs))


def unknown() -> DynamicCache:
    past = DynamicCache()
    past.layers.append(Fp8QuantizedLayer())
    return past


def test_a_cache_of_a_kind_that_is_not_known_is_refused_by_name() -> None:
    call = {"input_ids": IDS, "past_key_values": unknown()}
    with pytest.raises(InvalidModelError, match="Fp8QuantizedLayer are not known") as refused:
        hetpart.partition(llama(), kwargs=call, hardware=EMULATED)
    assert "use_cache" in refused.value.hint


def test_others_may_look_into_caches_that_are_not_known() -> None:
    """As without hetpart: what is in such a cache is left alone."""
    know_caches()
    past = unknown()
    again = pytree.tree_map(lambda leaf: leaf, {"past": past})["past"]
    assert type(again) is type(past)
    assert again.layers == past.layers
