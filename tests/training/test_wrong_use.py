# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
"""What a step cannot be made of, or called with, is told in one message, in terms of what its user typed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hetpart.errors import ExecutionError, HetpartError, InvalidFeedError, InvalidModelError, InvalidOptionError
from hetpart.training import FTRL, SGD, AdamW, Group, Groups, Momentum, SparseFTRL
from hetpart.training.compiled import CapturedStep, Running, capture, place, plan
from hetpart.training.compiled import compile as compile_step
from hetpart.training.optimizers import assign
from hetpart.training.precision import LossScale
from hetpart.training.rules import Rules
from hetpart.training.step import Step

X, LABELS = torch.ones(4, 6), torch.tensor([0, 1, 2, 0])


def classified(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), labels)


def captured(**changed: Any) -> CapturedStep:
    options: dict[str, Any] = {"optimizer": SGD(0.1), "example_batch": (X, LABELS), **changed}
    torch.manual_seed(0)
    return capture(options.pop("model", nn.Linear(6, 3)), options.pop("loss_fn", classified), **options)


@cache
def usual() -> CapturedStep:
    return captured()


def placed(placement: str = "all-cpu", **options: Any) -> Step:
    running = Running(emulate=True, threads=1)
    return place(usual(), running=running, hardware="emulated", placement=placement, **options)


def assigned(optimizer: Any) -> Any:
    return assign(optimizer, dict(nn.Linear(6, 3).named_parameters()))


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (torch.optim.SGD([torch.ones(1)], 0.1), r"optimizer cannot be a torch\.optim\.sgd\.SGD"),
        (None, "optimizer cannot be None"),
        (torch.optim.SGD, r"optimizer cannot be the class torch\.optim\.sgd\.SGD"),
        ([SGD(0.1)], r"optimizer cannot be a builtins\.list"),
        (AdamW, "optimizer cannot be the class AdamW"),
        (Groups(SGD(0.1), (Group("*.bias", cast("Any", AdamW)),)), "optimizer cannot be the class AdamW"),
        (AdamW(lr=cast("Any", "a")), "lr of AdamW cannot be 'a'"),
        (AdamW(lr=cast("Any", torch.tensor(0.1))), "lr of AdamW cannot be tensor"),
        (AdamW(lr=cast("Any", True)), "lr of AdamW cannot be True"),
        (AdamW(lr=-1.0), r"lr of AdamW cannot be -1\.0"),
        (AdamW(lr=nan), "lr of AdamW cannot be nan"),
        (AdamW(weight_decay=inf), "weight_decay of AdamW cannot be inf"),
        (AdamW(beta2=1.0), r"beta2 of AdamW cannot be 1\.0"),
        (Momentum(0.1, momentum=-0.5), r"momentum of Momentum cannot be -0\.5"),
        (FTRL(lr=0.0), r"lr of FTRL cannot be 0\.0"),
        (SparseFTRL(lr=0.0), r"lr of SparseFTRL cannot be 0\.0"),
        (FTRL(lr=0.1, l1=-1e-3), r"l1 of FTRL cannot be -0\.001"),
        (Groups(SGD(0.1), (Group("bias", lr=-1.0),)), r"lr of SGD cannot be -1\.0"),
        (Groups(SGD(0.1), (Group("bias", target=cast("Any", "gpu")),)), "target of group 'bias' cannot be 'gpu'"),
        (Groups(SGD(0.1), cast("Any", Group("bias", lr=0.1))), "the groups of Groups cannot be Group"),
        (Groups(SGD(0.1), cast("Any", [{"match": "bias"}])), r"the groups of Groups cannot be \{'match'"),
        (Groups(SGD(0.1), (Group(cast("Any", None), lr=0.1),)), "a group cannot match None"),
        (Groups(SGD(0.1), (Group(cast("Any", ("bias", 3)), lr=0.1),)), r"a group cannot match \('bias', 3\)"),
        (Groups(SGD(0.1), (Group((), lr=0.1),)), r"a group cannot match \(\)"),
        (Momentum(0.1, nesterov=cast("Any", "yes")), "nesterov of Momentum cannot be 'yes'"),
        (Momentum(0.1, dampening=0.1, nesterov=True), r"nesterov .* a momentum of 0\.9 and a dampening of 0\.1"),
        (Momentum(0.1, 0.0, nesterov=True), "nesterov .* a momentum of 0 and a dampening of 0"),
    ],
)
def test_an_optimizer_that_cannot_be(optimizer: Any, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=why) as error:
        assigned(optimizer)
    assert error.value.hint


class Turned(nn.Module):
    """A parameter of complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.turn = nn.Linear(6, 3), nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return (self.layer(x) * self.turn).abs()


def test_a_parameter_of_complex_numbers_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="'turn' is of complex64") as error:
        captured(model=Turned())
    assert "view_as_real" in error.value.hint


@pytest.mark.parametrize("sparse", ["held", "made"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_sparse_tensor_is_refused(sparse: str) -> None:
    model, x, adjacent = nn.Linear(4, 4), torch.ones(4, 4), torch.eye(4)
    if sparse == "held":
        model.register_buffer("adjacent", adjacent.to_sparse_csr())

    def loss(model: Any, x: Tensor, adjacent: Tensor) -> Tensor:
        held = getattr(model, "adjacent", adjacent.to_sparse() if sparse == "made" else adjacent)
        return torch.sparse.mm(held, model(x)).sum()

    with pytest.raises(InvalidModelError, match=r"tensor in the layout torch\.sparse_c"):
        capture(model, loss, optimizer=SGD(0.1), example_batch=(x, adjacent))


def test_numbers_may_be_numpys() -> None:
    [found, *_] = assigned(AdamW(lr=cast("Any", np.float32(0.5)), weight_decay=cast("Any", 0))).values()
    assert found.optimizer == AdamW(lr=0.5, weight_decay=0.0)
    assert type(found.optimizer.lr) is float


@pytest.mark.parametrize(
    ("changed", "kind", "why"),
    [
        ({"optimizer": AdamW}, InvalidOptionError, "optimizer cannot be the class AdamW"),
        ({"model": lambda x: x}, InvalidOptionError, "model cannot be a function"),
        ({"loss_fn": "mse"}, InvalidOptionError, "loss_fn cannot be 'mse'"),
        ({"example_batch": X}, InvalidOptionError, "example_batch cannot be a Tensor"),
        ({"example_batch": (X.to_sparse(), LABELS)}, InvalidOptionError, "part 0 .* of the layout sparse_coo"),
        ({"loss_fn": lambda m, x, y: (classified(m, x, y), x)}, InvalidModelError, "returns a tuple of 2"),
        ({"loss_fn": lambda m, x, y: {"loss": classified(m, x, y)}}, InvalidModelError, "returns a dict of 1"),
    ],
)
def test_what_no_step_is_made_of(changed: dict[str, Any], kind: type[HetpartError], why: str) -> None:
    with pytest.raises(kind, match=why) as error:
        captured(**changed)
    assert error.value.hint


@pytest.mark.parametrize(
    "rules",
    [
        {"accumulate": 1.5},
        {"accumulate": True},
        {"clip_norm": nan},
        {"clip_norm": "a"},
        {"loss_scale": 0.0},
        {"loss_scale": -2.0},
        {"loss_scale": 5e-324},
        {"loss_scale": 1e39},
        {"clip_norm": 10**400},
        {"loss_scale": LossScale(initial=inf)},
        {"loss_scale": LossScale(backoff=0.0)},
        {"loss_scale": LossScale(backoff=1.0)},
        {"loss_scale": LossScale(backoff=2.0)},
        {"loss_scale": LossScale(growth=0.5)},
        {"loss_scale": LossScale(growth=1.0)},
        {"loss_scale": LossScale(interval=0)},
    ],
)
def test_rules_that_cannot_be(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(rules))} cannot be"):
        Rules(**rules)


@pytest.mark.parametrize("options", [{"seed": None}, {"seed": 2**70}, {"seed": 0.5}, {"schedule": 0.5}])
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(options))} cannot be"):
        placed(**options)


@pytest.mark.parametrize("made", [compile_step, plan])
@pytest.mark.parametrize(
    ("options", "why", "hint"),
    [
        ({"bugdet": "8GB"}, "a training step has no option 'bugdet'", "did you mean 'budget'"),
        ({"acumulate": 2}, "a training step has no option 'acumulate'", "did you mean 'accumulate'"),
        ({"emulated": True}, "a training step has no option 'emulated'", "did you mean 'emulate'"),
        ({"budget": "8XB"}, "8XB", ""),
        ({"hardware": "l44"}, "l44", ""),
        ({"pin": "update/*"}, r"update/\*", ""),
        ({"placement": 3}, "placement cannot be 3", ""),
        ({"seed": 0.5}, r"seed cannot be 0\.5", ""),
        ({"schedule": 0.5}, r"schedule cannot be 0\.5", ""),
    ],
)
def test_options_are_read_before_the_loss_is_traced(
    made: Callable[..., Any], options: dict[str, Any], why: str, hint: str
) -> None:
    traced: list[nn.Module] = []

    def loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        traced.append(model)
        return classified(model, x, labels)

    with pytest.raises(InvalidOptionError, match=why) as error:
        made(nn.Linear(6, 3), loss, optimizer=SGD(0.1), example_batch=(X, LABELS), **options)
    assert hint in error.value.hint
    assert not traced


@pytest.mark.parametrize("given", [None, nan, "a", -1, -1e-9])
def test_a_schedule_that_gives_no_factor(given: Any) -> None:
    step = placed(schedule=lambda _: given)
    with pytest.raises(InvalidOptionError, match=r"the schedule gives .* for update 1"):
        step(X, LABELS)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (lambda: 1.0, r"schedule cannot be called with 1 argument: it takes \(\)"),
        (lambda update, rate: update * rate, "schedule cannot be called with 1 argument"),
        (torch.optim.lr_scheduler.StepLR, "schedule cannot be <class"),
    ],
)
def test_a_schedule_that_is_not_called_with_the_update(schedule: Any, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=why):
        placed(schedule=schedule)


@pytest.mark.parametrize("match", [str.isidentifier, lambda: True])
def test_a_filter_that_is_not_called_with_name_and_parameter(match: Any) -> None:
    with pytest.raises(InvalidOptionError, match="the function of a group cannot be called with 2 arguments"):
        assigned(Groups(SGD(0.1), (Group(match),)))


@pytest.mark.parametrize(
    ("batch", "why"), [((), "example_batch has no part"), ((X.numpy(), LABELS), "part 0 of example_batch is an array")]
)
def test_an_example_that_is_none(batch: Any, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=why):
        captured(example_batch=batch)


def test_a_schedule_may_give_0() -> None:
    assert placed(schedule=lambda _: 0.0).rate == 0.0


@pytest.mark.parametrize(
    "use",
    [
        lambda step, folder: step.save_checkpoint(folder),
        lambda step, folder: step.save_checkpoint(folder, integrated=False),
        lambda step, folder: step.save(folder / "step.onnx", X, LABELS),
        lambda step, _: step.state_dict(),
        lambda step, _: step.sync_to(nn.Linear(6, 3)),
        lambda step, _: step(X, LABELS),
    ],
    ids=["save_checkpoint", "parts", "save", "state_dict", "sync_to", "call"],
)
def test_a_step_that_is_closed_says_so(tmp_path: Path, use: Callable[[Step, Path], Any]) -> None:
    step = placed()
    step.close()
    with pytest.raises(ExecutionError, match="is closed") as error:
        use(step, tmp_path)
    assert "compile the training step again" in error.value.hint
    assert not any(tmp_path.iterdir())


def test_a_schedule_may_give_a_tensor() -> None:
    assert placed(schedule=lambda _: cast("Any", torch.tensor(0.5))).rate == 0.5


@pytest.mark.parametrize("like", [torch.Tensor.clone, torch.Tensor.numpy])
def test_a_batch_of_another_size_is_told_in_terms_of_the_example(like: Callable[[Tensor], Any]) -> None:
    with pytest.raises(InvalidFeedError, match=r"part 0 of the batch is float32\[2, 6\]") as error:
        placed()(like(X[:2]), like(LABELS[:2]))
    assert "drop_last=True" in error.value.hint


@pytest.mark.parametrize(
    ("given", "named"), [(None, "None"), ("a", "'a'"), (X.to_sparse(), "a tensor of the layout sparse_coo")]
)
def test_a_batch_of_no_tensors_is_told_in_terms_of_the_example(given: Any, named: str) -> None:
    with pytest.raises(InvalidFeedError, match=rf"part 0 of the batch is {named}, and the step .* float32\[4, 6\]"):
        placed()(given, LABELS)


def test_a_batch_may_be_numpys() -> None:
    assert placed()(X.numpy(), LABELS.numpy()) == placed()(X, LABELS)


@pytest.mark.parametrize("placement", ["all-cpu", "all-accelerator"])
def test_a_label_that_is_no_class_is_told_to_the_user_of_a_step(placement: str) -> None:
    step = placed(placement)
    with pytest.raises(
        ExecutionError, match="labels of cross_entropy_loss go from -1 to 1 in part 1 of the batch, where 0 to 2"
    ) as error:
        step(X, LABELS - 1)
    assert "nothing was updated" in error.value.hint


def test_what_an_op_of_a_step_refuses_is_told_in_terms_of_the_batch() -> None:
    captured_step = captured(loss_fn=lambda model, x, labels: model(x)[torch.arange(4), labels].sum())
    step = place(captured_step, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu")
    with pytest.raises(ExecutionError, match="failed") as error:
        step(X, LABELS + 7)
    assert "labels that are no class" in error.value.hint
    assert "hetpart run" not in error.value.hint


def test_a_content_that_is_none() -> None:
    with pytest.raises(InvalidFeedError, match="has no 'step'"):
        placed().load_state_dict({})
    for tensors in ([1], None, 5, "x"):
        with pytest.raises(InvalidFeedError, match="the tensors of the content are a"):
            placed().load_state_dict({"step": 1, "tensors": tensors})


def _frozen_meanwhile(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    model.requires_grad_(requires_grad=False)
    loss = nn.functional.cross_entropy(model(x), labels)
    model.requires_grad_(requires_grad=True)
    return loss


def _frozen_by_name(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    cast("Any", model).bias.requires_grad = False
    return classified(model, x, labels)


@pytest.mark.parametrize(("loss_fn", "name"), [(_frozen_meanwhile, "weight"), (_frozen_by_name, "bias")])
def test_parameters_are_not_frozen_while_the_loss_is_computed(loss_fn: Any, name: str) -> None:
    """A trace does not follow it: what was to stay as it is would be trained."""
    model = nn.Linear(6, 3)
    with pytest.raises(InvalidModelError, match=f"the loss sets requires_grad of '{name}' to False"):
        captured(model=model, loss_fn=loss_fn)
    assert cast("Any", torch.Tensor).requires_grad.__get__(model.weight) is True


def test_flags_that_stay_as_they_are_may_be_set() -> None:
    def loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        model.requires_grad_(requires_grad=True)
        return classified(model, x.detach().requires_grad_(), labels)

    assert captured(loss_fn=loss)
