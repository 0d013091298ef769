# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
"""Gradients that are summed, clipped or in half precision, against what eager PyTorch does with them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hetpart.errors import ExecutionError, InvalidFeedError, InvalidOptionError
from hetpart.training import SGD, AdamW
from hetpart.training.capture import LossFunction
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.precision import IN_FULL, IN_HALF, LossScale, Scaling
from hetpart.training.rules import Rules
from hetpart.training.step import Step
from tests.training.models import Attention, attention, classified, mlp, next_token

EMULATED = Running(emulate=True, threads=1)
RATE = 1e-2


@cache
def captured(rules: Rules) -> CapturedStep:
    task = mlp()
    return capture(task.model, task.loss, optimizer=AdamW(lr=RATE), example_batch=task.batches[0], rules=rules)


def placed(rules: Rules, placement: str = "random:1", **options: Any) -> Step:
    return place(captured(rules), running=EMULATED, hardware="emulated", placement=placement, **options)


@pytest.mark.parametrize("placement", ["all-accelerator", "random:1", "random:5"])
def test_parts_of_a_batch_make_the_update_of_all_of_it(placement: str) -> None:
    task = mlp()
    eager, optimizer = copy.deepcopy(task.model), None
    optimizer = torch.optim.AdamW(eager.parameters(), lr=RATE)
    step = placed(Rules(accumulate=4), placement)
    whole = [torch.cat([batch[part] for batch in task.batches]) for part in range(2)]
    for number in range(25):
        optimizer.zero_grad()
        loss = task.loss(eager, *whole)
        loss.backward()
        optimizer.step()
        parts = [step(*batch).item() for batch in task.batches]
        assert sum(parts) / 4 == pytest.approx(loss.item(), rel=1e-5)
        assert step.steps == number + 1


@pytest.mark.parametrize("most", [0.05, 0.5, 100.0])
def test_clipping_is_pytorchs(most: float) -> None:
    task = mlp()
    eager = copy.deepcopy(task.model)
    optimizer = torch.optim.AdamW(eager.parameters(), lr=RATE)
    step = placed(Rules(clip_norm=most))
    for number in range(40):
        batch = task.batches[number % 4]
        optimizer.zero_grad()
        loss = task.loss(eager, *batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(eager.parameters(), most)
        optimizer.step()
        assert step(*batch).item() == pytest.approx(loss.item(), rel=1e-5)
        assert step.norm == pytest.approx(norm.item(), rel=1e-4)


@pytest.mark.parametrize("optimizer", [SGD(lr=RATE), AdamW(lr=RATE)])
def test_clipping_alone_leaves_no_update_out(optimizer: Any) -> None:
    """A norm that is no number makes all gradients so, as PyTorch's does; nothing is skipped in silence."""
    task = mlp()
    eager = copy.deepcopy(task.model)
    theirs = getattr(torch.optim, type(optimizer).__name__)(eager.parameters(), lr=RATE)
    made = capture(
        task.model, task.loss, optimizer=optimizer, example_batch=task.batches[0], rules=Rules(clip_norm=1.0)
    )
    step = place(made, running=EMULATED, hardware="emulated", placement="random:1")
    for number in range(4):
        x, labels = task.batches[number]
        x = torch.where(torch.arange(len(x))[:, None] == 0, torch.inf, x) if number == 1 else x
        theirs.zero_grad()
        loss = task.loss(eager, x, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(eager.parameters(), 1.0)
        theirs.step()
        assert step(x, labels).item() == pytest.approx(loss.item(), rel=1e-5, nan_ok=True)
        assert step.steps == number + 1
    assert all(tensor.isnan().all() for tensor in eager.state_dict().values())
    assert all(step.state_dict()["tensors"][name].isnan().all() for name in eager.state_dict())


def summed(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).sum()


@cache
def single() -> nn.Linear:
    return nn.Linear(2, 1, bias=False)


@cache
def captured_single(precision: str | None) -> CapturedStep:
    rules = Rules(precision, LossScale())
    return capture(single(), summed, optimizer=AdamW(lr=RATE), example_batch=(torch.ones(1, 2),), rules=rules)


@pytest.mark.parametrize("number", [3e15, 3e20, 3e38])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_gradients_overflow_by_their_elements_not_by_their_norm(number: float, precision: str | None) -> None:
    """The square of a finite float is none that float32 holds, from 1.8e19 on."""
    batch = (torch.tensor([[number, -number]]),)
    eager, scaler = copy.deepcopy(single()), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.AdamW(eager.parameters(), lr=RATE)
    step = place(captured_single(precision), running=EMULATED, hardware="emulated", placement="random:1")
    for _ in range(6):
        optimizer.zero_grad()
        scaler.scale(summed(eager, *batch)).backward()
        scaler.step(optimizer)
        scaler.update()
        step(*batch)
        assert step.loss_scale == scaler.get_scale()
    torch.testing.assert_close(step.state_dict()["tensors"]["weight"], eager.weight.detach())
    assert step.steps == (0 if number == 3e38 else 6)


def test_more_parts_than_make_an_update_are_not_taken_over() -> None:
    """Those that are fewer are: the sum goes on, and the mean is of as many as the step says."""
    task, three = mlp(), placed(Rules(accumulate=3))
    first, second = task.batches[:2]
    three(*first)
    one = three.state_dict()
    three(*second)
    two = placed(Rules(accumulate=2))
    with pytest.raises(InvalidFeedError, match="2 parts of a batch are collected in the content, and 2 make an update"):
        two.load_state_dict(three.state_dict())
    assert two.calls == 0
    two.load_state_dict(one)
    two(*second)
    whole = placed(Rules(accumulate=2))
    whole(*first)
    whole(*second)
    assert two.steps == 1
    for name, tensor in whole.state_dict()["tensors"].items():
        assert torch.equal(two.state_dict()["tensors"][name], tensor), name


def test_parts_of_a_batch_are_clipped_together() -> None:
    task = mlp()
    eager = copy.deepcopy(task.model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    rules = Rules(accumulate=2, clip_norm=0.1)
    model = capture(task.model, task.loss, optimizer=SGD(lr=0.1), example_batch=task.batches[0], rules=rules)
    step = place(model, running=EMULATED, hardware="emulated", placement="random:2", schedule=lambda n: 1 / n)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 / (done + 1))
    for _ in range(10):
        losses = [task.loss(eager, *batch) for batch in task.batches[:2]]
        optimizer.zero_grad()
        (sum(losses) / 2).backward()
        torch.nn.utils.clip_grad_norm_(eager.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        ours = [step(*batch).item() for batch in task.batches[:2]]
        assert ours == pytest.approx([loss.item() for loss in losses], rel=1e-5)


class Mixed:
    """Eager PyTorch: halves that compute, masters that are updated, and its own scaler of losses."""

    def __init__(self, model: nn.Module, half: torch.dtype, scaler: torch.amp.GradScaler) -> None:
        self.masters = copy.deepcopy(model)
        self.halves = copy.deepcopy(model).to(half)
        self.optimizer = torch.optim.AdamW(self.masters.parameters(), lr=RATE)
        self.scaler, self.half = scaler, half

    def __call__(self, x: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(self.halves(x.to(self.half)).float(), labels)
        self.halves.zero_grad()
        self.scaler.scale(loss).backward()
        pairs = list(zip(self.masters.parameters(), self.halves.parameters(), strict=True))
        for master, rounded in pairs:
            assert rounded.grad is not None
            master.grad = rounded.grad.float()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with torch.no_grad():
            for master, rounded in pairs:
                rounded.copy_(master)
        return loss


def relu_mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))


@cache
def mixed(rules: Rules, optimizer: Any, loss: LossFunction) -> CapturedStep:
    return capture(relu_mlp(), loss, optimizer=optimizer, example_batch=mlp().batches[0], rules=rules)


def mixed_step(
    rules: Rules, placement: str = "random:3", optimizer: Any = None, loss: LossFunction = classified
) -> Step:
    made = mixed(rules, optimizer or AdamW(lr=RATE), loss)
    return place(made, running=EMULATED, hardware="emulated", placement=placement)


@pytest.mark.parametrize("placement", ["all-accelerator", "random:3", "optimal"])
def test_losses_in_fp16_scale_as_pytorchs_scaler_does(placement: str) -> None:
    """Every sixth batch is too large for fp16; after four updates that were made the scale grows."""
    rule = LossScale(initial=2.0**10, interval=4)
    scaler = torch.amp.GradScaler("cpu", init_scale=rule.initial, growth_interval=4)
    eager = Mixed(relu_mlp(), torch.float16, scaler)
    step, task = mixed_step(Rules("fp16", rule), placement), mlp()
    for number in range(30):
        x, labels = task.batches[number % 4]
        x = x * 1e6 if number % 6 == 2 else x
        assert step.loss_scale == scaler.get_scale()
        ours, theirs = step(x, labels).item(), eager(x, labels).item()
        assert ours == pytest.approx(theirs, rel=2e-2) or number % 6 == 2
        assert step.steps == number + 1 - (number + 4) // 6
    assert step.loss_scale == scaler.get_scale()


def test_losses_in_bf16_are_those_of_eager_pytorch() -> None:
    eager = Mixed(relu_mlp(), torch.bfloat16, torch.amp.GradScaler("cpu", enabled=False))
    step, task = mixed_step(Rules("bf16")), mlp()
    for number in range(40):
        batch = task.batches[number % 4]
        assert step(*batch).item() == pytest.approx(eager(*batch).item(), rel=5e-2)
    assert step.steps == 40


def test_a_loss_may_cast_to_what_it_is_computed_in_anyway() -> None:
    def cast(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x).float(), labels)

    step, other, task = mixed_step(Rules("bf16"), loss=cast), mixed_step(Rules("bf16")), mlp()
    for batch in task.batches:
        assert step(*batch).item() == other(*batch).item()


@pytest.mark.parametrize("initial", [1.0, 65536.0, 2.0**126])
def test_the_scale_of_a_loss_follows_pytorchs_rule(initial: float) -> None:
    rule = LossScale(initial, growth=3.0, backoff=0.25, interval=2)
    ours = Scaling(rule)
    theirs = torch.amp.GradScaler("cpu", initial, rule.growth, rule.backoff, rule.interval)
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for overflowed in (False, False, True, False, False, False, False, True, True, False, False):
        theirs.scale(torch.ones(()))
        weight.grad = torch.tensor([float("inf") if overflowed else 1.0])
        theirs.step(optimizer)
        theirs.update()
        ours.tell(overflowed=overflowed)
        assert ours.scale == theirs.get_scale()


def test_a_loss_that_overflows_in_every_update_ends_in_words() -> None:
    """Once they have brought the scale from 2^16 below the least that float32 has, 2^-149."""
    scaling = Scaling(LossScale())
    for _ in range(16 + 149):
        scaling.tell(overflowed=True)
    assert scaling.of_part(1) == 2.0**-149
    scaling.tell(overflowed=True)
    with pytest.raises(ExecutionError, match=r"came down to 7\.00649e-46, which float32 has as 0"):
        scaling.of_part(1)


def test_an_update_that_overflows_changes_nothing() -> None:
    step, task = mixed_step(Rules("fp16", 2.0**40)), mlp()
    before = step.state_dict()["tensors"]
    step(*task.batches[0])
    assert step.steps == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in step.state_dict()["tensors"].items())


def test_a_mixed_step_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    task, rules = mlp(), Rules("fp16", LossScale(2.0**10, interval=3), accumulate=2)
    first = mixed_step(rules)
    for batch in task.batches[:3]:
        first(*batch)
    first.save_checkpoint(tmp_path)
    rest = [first(*batch).item() for batch in task.batches]
    second = mixed_step(rules)
    second.load_checkpoint(tmp_path)
    assert [second(*batch).item() for batch in task.batches] == rest
    assert (first.loss_scale, first.steps) == (second.loss_scale, second.steps)
    weights = second.state_dict()["tensors"]
    assert {name for name in weights if not name.startswith("optimizer/")} == dict(relu_mlp().named_parameters()).keys()
    assert weights["0.weight"].dtype == torch.float32


def test_a_mixed_step_takes_a_third_of_the_accelerators_memory_at_most() -> None:
    """Of what all of it in full precision takes there, counted by who allocates it: states, and what lies between."""
    model, batch = Attention(96), attention().batches[0]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kinds = {"full": (Rules(), None), "mixed": (Rules("fp16"), "node:update/*=cpu")}
    held: dict[str, int] = {}
    for name, (rules, pin) in kinds.items():
        made = capture(model, next_token, optimizer=AdamW(lr=RATE), example_batch=batch, rules=rules)
        step = place(made, running=EMULATED, hardware="emulated", placement="all-accelerator", pin=pin)
        step(*batch)
        there = [given for given, device in step.session.state().devices.items() if device == "cuda:0"]
        states = sum(step.session.state()[given].nbytes for given in there)
        held[name] = states + step.plan.device("cuda:0").buffer_bytes
        assert states == {"full": 12 * parameters, "mixed": 0}[name]
    assert held["mixed"] <= held["full"] / 3


def test_an_update_is_on_another_device_than_its_layer() -> None:
    """In full precision: the layer reads a copy that comes over the link in every step."""
    task, made = mlp(), captured(Rules())
    pins = ["node:update/2.*=cpu", "node:update/0.*=cuda"]
    whole = place(made, running=EMULATED, hardware="emulated", placement="all-accelerator")
    step = place(made, running=EMULATED, hardware="emulated", placement="all-accelerator", pin=pins)
    devices = step.session.state().devices
    assert {devices["_2_weight"], devices["exp_avg_2_weight"]} == {"cpu"}
    assert devices["_0_weight"] == "cuda:0"
    up = {copy.value for copy in step.plan.transfers if copy.source == "cpu"}
    assert {"_2_weight", "_2_bias"} == {name for name in up if "batch" not in name and "progress" not in name}
    for _ in range(3):
        for batch in task.batches:
            assert step(*batch).item() == whole(*batch).item()


def test_only_halves_cross_the_link() -> None:
    """Updates on the host, everything else on the accelerator: gradients come down and parameters go up in half."""
    step = place(
        captured(Rules("bf16")),
        running=EMULATED,
        hardware="emulated",
        placement="all-accelerator",
        pin="node:update/*=cpu",
    )
    parameters = sum(tensor.numel() for tensor in mlp().model.parameters())
    up = [copy for copy in step.plan.transfers if copy.source == "cpu"]
    batch = sum(part.nbytes for part in mlp().batches[0])
    assert sum(copy.nbytes for copy in up) <= 2 * parameters + batch + 64
    down = [copy for copy in step.plan.transfers if copy.target == "cpu"]
    assert sum(copy.nbytes for copy in down) <= 2 * parameters + 64
    assert step.plan.device("cuda:0").state_bytes == 0
    assert step.session.state().nbytes == (12 + 2) * parameters


def follows(dtype: torch.dtype, rules: Rules) -> Iterator[tuple[float, float]]:
    """Losses and norms of a step and of eager PyTorch, of a model that is of one type."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)).to(dtype)
    batches = [(x.to(dtype), labels) for x, labels in mlp().batches]
    made = capture(model, classified, optimizer=AdamW(lr=RATE), example_batch=batches[0], rules=rules)
    step = place(made, running=EMULATED, hardware="emulated", placement="random:1")
    eager = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(eager.parameters(), lr=RATE)
    for number in range(20):
        loss = classified(eager, *batches[number % 4])
        (loss / rules.accumulate).backward()
        yield step(*batches[number % 4]).item(), loss.item()
        if number % rules.accumulate == rules.accumulate - 1:
            norm = torch.nn.utils.clip_grad_norm_(eager.parameters(), rules.clip_norm or torch.inf)
            optimizer.step()
            optimizer.zero_grad()
            if step.norm is not None:
                yield step.norm, norm.item()


ALL = Rules(accumulate=2, clip_norm=0.1, loss_scale=128.0)


@pytest.mark.parametrize(
    ("dtype", "rules"),
    [
        (torch.bfloat16, Rules(accumulate=2)),
        (torch.float64, Rules(clip_norm=0.1)),
        (torch.bfloat16, Rules(loss_scale=128.0)),
        (torch.float64, ALL),
        (torch.bfloat16, ALL),
        (torch.float64, Rules(clip_norm=0.1, loss_scale=1000.1)),  # which float32 does not hold
    ],
    ids=["accumulate", "clip_norm", "loss_scale", "all of float64", "all of bfloat16", "odd_scale"],
)
def test_models_of_other_types_do_as_eager_pytorchs(dtype: torch.dtype, rules: Rules) -> None:
    tolerance = {torch.float64: 1e-12, torch.bfloat16: 5e-2}[dtype]
    for ours, theirs in follows(dtype, rules):
        assert ours == pytest.approx(theirs, rel=tolerance)


class Sharing(nn.Module):
    """Parameters whose gradients are constants, or one tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scores = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
        self.base, self.delta, self.added = (nn.Parameter(torch.randn(6, 3)) for _ in range(3))
        self.summed, self.factors = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
        self.register_buffer("fixed", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        made = nn.functional.linear(x, self.base + self.delta).tanh()
        terms = self.scores(x).mean(), (self.factors * self.fixed).sum(), (x[:6] + self.added).square().mean()
        return made.square().sum() + self.summed.sum() + sum(terms)


@cache
def sharing(rules: Rules) -> CapturedStep:
    return capture(Sharing(), whole, optimizer=SGD(lr=RATE), example_batch=(torch.zeros(8, 3),), rules=rules)


def whole(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@pytest.mark.parametrize("rules", [Rules(clip_norm=0.5), Rules(loss_scale=1024.0)], ids=["clip_norm", "loss_scale"])
@pytest.mark.parametrize("placement", ["all-cpu", "random:1"])
def test_gradients_that_are_constants_or_of_two_parameters_are_scaled_for_each(rules: Rules, placement: str) -> None:
    eager, x = Sharing(), torch.linspace(-1, 1, 24).reshape(8, 3)
    made = sharing(rules)
    step = place(made, running=EMULATED, hardware="emulated", placement=placement)
    optimizer = torch.optim.SGD(eager.parameters(), lr=RATE)
    for _ in range(6):
        loss = whole(eager, x)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(eager.parameters(), rules.clip_norm or torch.inf)
        optimizer.step()
        assert step(x).item() == pytest.approx(loss.item(), rel=1e-5)
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(step.state_dict()["tensors"][name], parameter.detach(), rtol=1e-5, atol=1e-6)


def test_a_scale_that_never_changes_is_not_a_checkpoints(tmp_path: Path) -> None:
    task = mlp()
    first, other = placed(Rules(loss_scale=128.0)), placed(Rules(loss_scale=1024.0))
    first(*task.batches[0])
    first.save_checkpoint(tmp_path)
    other.load_checkpoint(tmp_path)
    assert (first.loss_scale, other.loss_scale, other.steps) == (128.0, 1024.0, 1)
    changing = placed(Rules(loss_scale=LossScale(2.0)))
    changing.load_checkpoint(tmp_path)
    assert changing.loss_scale == 128.0


def test_operators_of_the_lists_are_pytorchs() -> None:
    assert not [name for name in IN_HALF | IN_FULL if not hasattr(torch.ops.aten, name)]


@pytest.mark.parametrize(
    ("rules", "why"),
    [({"precision": "fp8"}, "precision"), ({"accumulate": 0}, "accumulate"), ({"clip_norm": 0.0}, "clip_norm")],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"{why} cannot be"):
        Rules(**rules)


@pytest.mark.parametrize("parts", [3, 4])
def test_the_scale_of_parts_of_a_batch_is_that_of_pytorchs_recipe(parts: int) -> None:
    """``scaler.scale(loss / parts)`` overflows later than the whole loss of each part, times the scale, would."""
    rule = LossScale(2.0**24, interval=100)
    step, task = mixed_step(Rules("fp16", rule, accumulate=parts), optimizer=SGD(lr=0.0)), mlp()
    scaler, masters = torch.amp.GradScaler("cpu", init_scale=rule.initial), relu_mlp()
    halves, optimizer = copy.deepcopy(masters).half(), torch.optim.SGD(masters.parameters(), lr=0.0)
    found = list[float]()
    for _ in range(14):
        sums = [torch.zeros_like(master) for master in masters.parameters()]
        for x, labels in task.batches[:parts]:
            halves.zero_grad()
            loss = nn.functional.cross_entropy(halves(x.half()).float(), labels)
            scaler.scale(loss / parts).backward()
            sums = [total + half.grad for total, half in zip(sums, halves.parameters(), strict=True)]
            step(x, labels)
        for master, total in zip(masters.parameters(), sums, strict=True):
            master.grad = total
        scaler.step(optimizer)
        scaler.update()
        found.append(step.loss_scale)
        assert step.loss_scale == scaler.get_scale()
    assert found[-1] == found[-2] < found[0]


def test_parts_of_a_batch_go_on_at_their_own_scale() -> None:
    task, first = mlp(), mixed_step(Rules("fp16", 128.0, accumulate=3))
    first(*task.batches[0])
    content = first.state_dict()
    other = mixed_step(Rules("fp16", 128.0, accumulate=2))
    with pytest.raises(InvalidFeedError, match=r"of losses times 42\.6667, and here they are times 64"):
        other.load_state_dict(content)
    with pytest.raises(InvalidFeedError, match="times 128, and here they are times 64"):
        other.load_state_dict({name: value for name, value in content.items() if name != "part_scale"})
    assert other.calls == 0
    again = mixed_step(Rules("fp16", 128.0, accumulate=3))
    again.load_state_dict(content)
    assert [again(*b).item() for b in task.batches] == [first(*b).item() for b in task.batches]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scale", -4.0), ("scale", float("nan")), ("scale", float("inf")), ("scale", 1e39), ("scale", "x"),
        ("scale", None), ("since", -3), ("since", "q"), ("step", 2**63), ("step", 10**30), ("calls", 10**30),
        ("seed", "q"), ("seed", None), ("seed", 1.5), ("seed", 2**70),
    ],
)  # fmt: skip
def test_a_content_with_a_number_that_is_none_is_refused_before_anything_is_taken_over(key: str, value: Any) -> None:
    step, task = mixed_step(Rules("fp16", LossScale(128.0))), mlp()
    step(*task.batches[0])
    content, before = step.state_dict(), step.state_dict()
    content["tensors"] = {name: torch.zeros_like(tensor) for name, tensor in content["tensors"].items()}
    with pytest.raises(InvalidFeedError, match=f"content's '?{key}"):
        step.load_state_dict(content | {key: value})
    after = step.state_dict()
    assert all(after["tensors"][name].equal(tensor) for name, tensor in before["tensors"].items())
    assert {**after, "tensors": None} == {**before, "tensors": None}


def test_what_is_collected_at_a_scale_that_is_none_is_refused() -> None:
    task, step = mlp(), mixed_step(Rules("fp16", 128.0, accumulate=3))
    step(*task.batches[0])
    for value in ("x", -1.0, None):
        with pytest.raises(InvalidFeedError, match=r"'part_scale' is .*, which is no scale of a loss"):
            step.load_state_dict(step.state_dict() | {"part_scale": value})


def test_a_step_whose_scale_came_down_to_nothing_can_be_saved() -> None:
    rules = Rules("fp16", LossScale(4e-38, backoff=1e-20), accumulate=2)
    step, task = mixed_step(rules), mlp()
    x, labels = task.batches[0]
    for _ in range(2):
        step(torch.full_like(x, torch.inf), labels)
    with pytest.raises(ExecutionError, match="came down to"):
        step(x, labels)
    assert step.state_dict()["part"] == 0


@pytest.mark.parametrize("scale", [1e-10, 1e-25, 1e-35])
def test_gradients_of_a_small_scale_are_clipped_by_their_norm(scale: float) -> None:
    """Their squares are none that float32 holds."""
    layer, batch = nn.Linear(2, 1, bias=False), (torch.tensor([[3.0, 4.0]]),)
    before = layer.weight.detach().clone()
    made = capture(
        layer, lambda model, x: model(x).sum(), optimizer=SGD(0.1), example_batch=batch,
        rules=Rules(clip_norm=1.0, loss_scale=scale),
    )  # fmt: skip
    step = place(made, running=EMULATED, hardware="emulated", placement="all-cpu")
    step(*batch)
    assert step.norm == pytest.approx(5.0)
    moved = step.state_dict()["tensors"]["weight"] - before
    assert moved.tolist()[0] == pytest.approx([-0.06, -0.08], rel=1e-5)
