"""Updates that only one of several calls makes: what a call costs then."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.errors import InvalidModelError
from hetpart.graph.provenance import EVERY
from hetpart.partitioned import PartitionedModel
from hetpart.training import AdamW, Group, Groups, LazyAdam, plan

WIDTH, ROWS = 512, 16
UPDATES = ["node:update/*=cpu"]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(1000, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def loss(trained: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(trained(ids), y)


@cache
def planned(accumulate: int, kind: str | None = None) -> PartitionedModel:
    batch = torch.arange(ROWS), torch.arange(ROWS) % 10
    rules = AdamW(1e-3) if kind is None else Groups(AdamW(1e-3), (Group("0.*", LazyAdam(1e-3)),))
    return plan(
        model(), loss, optimizer=rules, example_batch=batch, accumulate=accumulate, hardware="emulated", pin=UPDATES
    )


def of_updates(made: PartitionedModel) -> float:
    chosen = [one for one in made.plan.decisions if one.op.startswith("update/")]
    return sum(one.seconds[one.device] for one in chosen)


def test_a_call_costs_its_share_of_the_update() -> None:
    """Every call starts the op, so that seconds are a + b / N; an update in each call is priced at a + b."""
    once, two, four, eight = (of_updates(planned(calls)) for calls in (1, 2, 4, 8))
    whole = 4 * (two - four)
    assert whole > once / 2
    assert 8 * (four - eight) == pytest.approx(whole, rel=1e-3)
    assert once - two == pytest.approx(whole / 2, rel=1e-3)


def test_what_is_predicted_is_the_mean_of_so_many_calls() -> None:
    two, eight = planned(2), planned(8)
    saved = of_updates(two) - of_updates(eight)
    assert two.plan.prediction.seconds - eight.plan.prediction.seconds == pytest.approx(saved, rel=0.05)
    assert "the mean of 8 runs: 5 ops, update/" in " ".join(eight.report(width=300).split())
    assert "the mean of" not in planned(1).report(width=300)


def test_rows_of_all_calls_are_updated_in_the_last() -> None:
    """So a call updates as many as it looks up, however many there are."""
    moved = [
        next(one.bytes_moved for one in planned(calls, "rows").plan.decisions if one.op == "update/0.weight")
        for calls in (2, 16)
    ]
    assert moved[1] == pytest.approx(moved[0], rel=0.1)


def test_a_saved_step_is_priced_so_too(tmp_path: Path) -> None:
    made = planned(4)
    step = hetpart.training.compile(
        model(), loss, optimizer=AdamW(1e-3), example_batch=(torch.arange(ROWS), torch.arange(ROWS) % 10),
        accumulate=4, hardware="emulated", pin=UPDATES, emulate=True,
    )  # fmt: skip
    step.save(tmp_path / "step.onnx")
    step.close()
    again = hetpart.partition(tmp_path / "step.onnx", hardware="emulated", pin=UPDATES)
    assert again.plan.prediction.seconds == pytest.approx(made.plan.prediction.seconds)
    assert of_updates(again) == pytest.approx(of_updates(made))


@pytest.mark.parametrize("written", ["0", "-2", "often", "1.5", ""])
def test_what_is_no_number_of_runs_is_refused(written: str, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("Relu", ["x"], ["y"], name="seldom")
    node.metadata_props.add(key=EVERY, value=written)
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    proto = helper.make_model(helper.make_graph([node], "g", *ends), opset_imports=[helper.make_opsetid("", 21)])
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(InvalidModelError, match=r"'seldom' have 'hetpart.every'"):
        hetpart.partition(tmp_path / "m.onnx", hardware="emulated")
