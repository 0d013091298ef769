"""Of ``benchmarks/torch_models.py``: attention with a bias, experts and grouped heads, bodies that capture weights."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

import hetpart
from benchmarks.models.pytorch_models import IDS, Called, built
from benchmarks.torch_models import HARDWARE, compiled, difference, planned
from tests.pytorch.conftest import one_registry  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def t5() -> Called:
    """Two layers that share a bias, and a decoder of one."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=1, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    call = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4], "use_cache": False}
    return Called(T5ForConditionalGeneration(config).eval(), (), call)


def test_a_model_partitioned_at_half_its_footprint_does_as_eager_pytorch() -> None:
    called = t5()
    exported = hetpart.export(called.module, args=called.args, kwargs=called.kwargs)
    whole = hetpart.partition(exported, hardware=HARDWARE)
    plans: list[hetpart.PartitionedModel] = []
    budget = whole.plan.footprint_bytes // 2
    made = planned(exported, called, budget, plans)
    worst, equal = difference(made, called.result())
    assert equal, worst
    assert plans[0].plan.devices[1].peak_bytes <= budget


@pytest.mark.parametrize("name", ["Mixtral, decoding", "torch.cond", "LSTM"])
def test_a_compiled_model_does_as_eager_pytorch(name: str) -> None:
    called = built(name)
    plans: list[hetpart.PartitionedModel] = []
    worst, equal = difference(compiled(called, 200_000, plans, "random:2"), called.result())
    assert equal, worst
    assert len(plans) == 1
    assert plans[0].plan.transfers
