"""A pin takes a module's passes, forward and backward, and the updates of its parameters, under the model's names."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidOptionError
from hetpart.training import AdamW, Group, Groups, SparseSGD
from hetpart.training.embedding import mapped


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.model = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.model(self.first(x)))


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), y)


BATCH = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4


def planned(model: nn.Module, **options: Any) -> Any:
    asked: dict[str, Any] = {"placement": "all-accelerator", "hardware": "emulated", **options}
    return hetpart.training.plan(model, loss, optimizer=AdamW(), example_batch=BATCH, **asked).plan


@pytest.mark.parametrize(
    ("pattern", "placement"),
    [("model.0", "optimal"), ("model.*", "all-accelerator"), ("model.*", "optimal"), ("model.0*", "all-accelerator")],
)
def test_a_pattern_takes_the_passes_and_the_updates(pattern: str, placement: str) -> None:
    plan = planned(Layered(), pin={pattern: "cpu"}, placement=placement)
    inside = [op for op in plan.decisions if op.scope == "model.0" or op.scope.startswith("model.0.")]
    assert {op.device for op in inside} == {"cpu"}
    assert {"Gemm", "MatMul"} <= {op.op_type for op in inside}, "both passes"
    assert {"update/model.0.weight", "update/model.0.bias"} <= {op.op for op in inside}
    assert not any(op.pinned for op in plan.decisions if op.scope.startswith(("first", "last")))


def test_what_contradicts_a_pin_is_named(tmp_path: Path) -> None:
    batch = torch.arange(4), torch.ones(4, 3)

    def summed(model: nn.Module, ids: Tensor, x: Tensor) -> Tensor:
        return (model(ids) * x).sum()

    def refusal(weight: Tensor, group: Group, device: str) -> str:
        model = nn.Sequential(OrderedDict(e=nn.Embedding.from_pretrained(weight, freeze=False)))
        options: dict[str, Any] = {"pin": {"update/e.weight": device}, "hardware": "emulated"}
        with pytest.raises(InvalidOptionError) as error:
            hetpart.training.plan(model, summed, optimizer=Groups(AdamW(), (group,)), example_batch=batch, **options)
        return error.value.message

    asked = refusal(torch.ones(9, 3), Group("*", SparseSGD(0.1), target="cuda"), "cpu")
    assert asked == "the target of its group puts 'update/e.weight' on cuda:0, and the option pin on cpu"
    lying = refusal(mapped(tmp_path / "table", (9, 3)), Group("*", SparseSGD(0.1)), "cuda:0")
    assert lying == "the file that its table lies in puts 'update/e.weight' on cpu, and the option pin on cuda:0"


def test_every_op_is_called_as_the_model_calls_its_modules() -> None:
    scopes = {op.scope for op in planned(Layered()).decisions}
    assert scopes <= {"", "first", "model", "model.0", "model.1", "last"}
    assert scopes >= {"first", "model.0", "last"}


def test_a_module_object_is_pinned_with_both_passes() -> None:
    model = Layered()
    with hetpart.pin(model.first, "cpu"):
        plan = planned(model)
    inside = [op for op in plan.decisions if op.scope == "first"]
    assert {op.device for op in inside} == {"cpu"}
    assert "Gemm" in {op.op_type for op in inside}


def test_what_torch_compile_returned_is_the_model_it_was_given() -> None:
    model = Layered()
    compiled: Any = torch.compile(model, backend="eager")
    with hetpart.pin(compiled.first, "cpu"):
        wanted, found = planned(model), planned(compiled)
    assert [(op.op, op.scope, op.device) for op in found.decisions] == [
        (op.op, op.scope, op.device) for op in wanted.decisions
    ]
    step = hetpart.training.compile(
        compiled, loss, optimizer=AdamW(), example_batch=BATCH, hardware="emulated", emulate=True
    )
    step(*BATCH)
    before, other = model.first.weight.detach().clone(), Layered()
    step.sync_to(compiled)
    step.sync_to(other)
    torch.testing.assert_close(other.first.weight, model.first.weight, rtol=0, atol=0)
    assert not torch.equal(before, model.first.weight)
