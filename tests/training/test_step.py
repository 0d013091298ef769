"""Training steps against eager PyTorch with the same optimizer, wherever they are placed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import hetpart
import hetpart.training
from hetpart.errors import InvalidFeedError, InvalidModelError, InvalidOptionError
from hetpart.plan.model import Plan
from hetpart.runtime.held import ValueWatch
from hetpart.runtime.profiles import profiling_options
from hetpart.training import SGD, AdamW, Group, Groups, LazyAdam, Momentum
from hetpart.training.compiled import CapturedStep, Running, capture, place, planned_step
from hetpart.training.compiled import compile as compile_step
from hetpart.training.kept import PlannedStep
from hetpart.training.step import Step
from hetpart.units import format_seconds
from tests.training.models import TASKS, Task

PLACEMENTS = ("optimal", "all-accelerator", "random:1", "random:2")
EMULATED = Running(emulate=True, threads=1)
Torch = Callable[[Any], torch.optim.Optimizer]


@cache
def task_of(name: str) -> Task:
    return TASKS[name]()


@cache
def captured(name: str) -> CapturedStep:
    task = task_of(name)
    return capture(task.model, task.loss, optimizer=AdamW(lr=1e-2), example_batch=task.batches[0])


def placed(name: str, placement: str = "random:1", **options: Any) -> Step:
    return place(captured(name), running=EMULATED, hardware="emulated", placement=placement, **options)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.01)


def eager_losses(model: torch.nn.Module, task: Task, make: Torch, steps: int) -> list[float]:
    optimizer = make(model.parameters())
    losses: list[float] = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = task.loss(model, *task.batches[number % len(task.batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of(step: Step, task: Task, steps: int) -> list[float]:
    return [step(*task.batches[number % len(task.batches)]).item() for number in range(steps)]


def assert_as_eager(step: Step, task: Task, make: Torch = adamw, steps: int = 100) -> None:
    """Losses of every step within 1e-5, and the next loss of the model once it has what was learnt.

    Where a gradient is nearly nothing Adam makes a whole step of its rounding, so parameters themselves drift apart.
    """
    eager, model = copy.deepcopy(task.model), copy.deepcopy(task.model)
    assert losses_of(step, task, steps) == pytest.approx(eager_losses(eager, task, make, steps), rel=1e-5)
    step.sync_to(model)
    for (name, ours), theirs in zip(model.named_buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)
    with torch.no_grad():
        synced = task.loss(model, *task.batches[0]).item()
    assert step(*task.batches[0]).item() == pytest.approx(synced, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "placement"),
    [*(("mlp", placement) for placement in PLACEMENTS), *((name, "random:2") for name in TASKS if name != "mlp")],
)
def test_a_hundred_losses_are_those_of_eager_pytorch(name: str, placement: str) -> None:
    with_lanes = placement == "random:2"
    step = placed(name, placement, overlap=with_lanes)
    assert_as_eager(step, task_of(name))
    step.close()


@pytest.mark.parametrize("share", ["25%", "50%"])
def test_a_step_keeps_to_its_budget(share: str) -> None:
    whole = placed("mlp", "all-accelerator").plan.device("cuda:0").peak_bytes
    budget = whole * int(share[:-1]) // 100
    step = placed("mlp", "optimal", budget=budget)
    assert step.plan.device("cuda:0").peak_bytes <= budget
    assert_as_eager(step, task_of("mlp"), steps=20)


def test_what_a_step_keeps_is_updated_in_place_where_it_lies() -> None:
    for placement in PLACEMENTS:
        step, task = placed("mlp", placement), task_of("mlp")
        weights = sum(tensor.nbytes for tensor in task.model.parameters())
        assert step.session.state().nbytes == 3 * weights
        assert sum(use.state_bytes for use in step.plan.devices) == 3 * weights


OPTIMIZERS: dict[str, tuple[Any, Torch]] = {
    "sgd": (SGD(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (
        Momentum(lr=0.05, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_other_optimizers_are_those_of_pytorch(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    task = task_of("mlp")
    step = compile_step(
        task.model, task.loss, optimizer=ours, example_batch=task.batches[0], emulate=True, hardware="emulated",
        placement="random:3",
    )  # fmt: skip
    assert_as_eager(step, task, theirs)


def test_groups_have_rates_decays_and_devices_of_their_own() -> None:
    task = task_of("mlp")
    groups = Groups(
        AdamW(lr=1e-2),
        (Group("0.*", lr=1e-3, target="cpu"), Group("*.bias", weight_decay=0.0), Group("4.*", target="cuda")),
    )
    step = compile_step(
        task.model, task.loss, optimizer=groups, example_batch=task.batches[0], emulate=True, hardware="emulated"
    )
    devices = {decision.op: decision.device for decision in step.plan.decisions}
    assert (devices["update/0.weight"], devices["update/4.weight"]) == ("cpu", "cuda:0")

    def theirs(_: Any) -> torch.optim.Optimizer:
        layers: Any = eager
        first = {"params": layers[0].parameters(), "lr": 1e-3}
        biases = {"params": [layers[2].bias, layers[4].bias], "weight_decay": 0.0}
        weights = {"params": [layers[2].weight, layers[4].weight]}
        return torch.optim.AdamW([first, biases, weights], lr=1e-2, weight_decay=0.01)

    eager = copy.deepcopy(task.model)
    assert losses_of(step, task, 30) == pytest.approx(eager_losses(eager, task, theirs, 30), rel=1e-5)


def test_a_schedule_multiplies_every_rate() -> None:
    task = task_of("mlp")
    step = place(captured("mlp"), running=EMULATED, hardware="emulated", schedule=lambda number: 1 / number)
    eager = copy.deepcopy(task.model)
    optimizer = adamw(eager.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 / (done + 1))
    for number in range(30):
        batch = task.batches[number % len(task.batches)]
        optimizer.zero_grad()
        loss = task.loss(eager, *batch)
        loss.backward()
        optimizer.step()
        schedule.step()
        assert step(*batch).item() == pytest.approx(loss.item(), rel=1e-5)


def test_a_step_goes_on_from_its_content_bit_for_bit() -> None:
    task, first = task_of("mlp"), placed("mlp", "random:1")
    losses_of(first, task, 10)
    content = first.state_dict()
    rest = losses_of(first, task, 10)
    second = placed("mlp", "random:1")
    second.load_state_dict(content)
    assert second.steps == 10
    assert losses_of(second, task, 12)[2:] != rest  # batches come in turn: 10 is not a multiple of 4
    second.load_state_dict(content)
    assert losses_of(second, task, 10) == rest


def test_a_step_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    task, first = task_of("mlp"), placed("mlp", "random:1")
    losses_of(first, task, 8)
    first.save_checkpoint(tmp_path)
    rest = losses_of(first, task, 8)
    second = placed("mlp", "all-accelerator")
    second.load_checkpoint(tmp_path)
    assert second.steps == 8
    assert losses_of(second, task, 8) == pytest.approx(rest, rel=1e-5)
    first.load_checkpoint(tmp_path)
    assert losses_of(first, task, 8) == rest


def test_a_content_of_another_step_is_refused() -> None:
    content = placed("mlp").state_dict()
    del content["tensors"]["optimizer/exp_avg/0.weight"]
    with pytest.raises(InvalidFeedError, match=r"another step: 'optimizer/exp_avg/0\.weight'"):
        placed("mlp").load_state_dict(content)


def test_what_holds_no_state_is_refused() -> None:
    step, nothing = placed("mlp"), cast("Any", None)
    with pytest.raises(InvalidFeedError, match="the content is a NoneType"):
        step.load_state_dict(nothing)
    with pytest.raises(InvalidOptionError, match="folder cannot be None"):
        step.load_checkpoint(nothing)
    with pytest.raises(InvalidOptionError, match="folder cannot be None"):
        step.save_checkpoint(nothing)


@pytest.mark.parametrize(
    ("key", "number"), [("step", -1), ("part", -1), ("calls", -3), ("step", 1.5), ("step", "1"), ("part", None)]
)
def test_a_content_that_counts_nothing_is_refused(key: str, number: Any) -> None:
    step = placed("mlp")
    before = step.state_dict()
    with pytest.raises(InvalidFeedError, match=f"'{key}' is {number!r}, which counts nothing"):
        step.load_state_dict({**before, key: number})
    assert (step.steps, step.calls) == (0, 0)


@pytest.mark.parametrize("number", ["1", 1.5, -1, True])
def test_a_checkpoint_of_no_number_of_steps_is_refused(number: Any, tmp_path: Path) -> None:
    step = placed("mlp")
    step.save_checkpoint(tmp_path)
    with pytest.raises(InvalidOptionError, match="step cannot be"):
        step.load_checkpoint(tmp_path, step=number)


def test_parts_of_a_batch_that_have_names_are_refused() -> None:
    step, (x, y) = placed("mlp"), task_of("mlp").batches[0]
    with pytest.raises(InvalidFeedError, match="part 0 of the batch is a dict"):
        step({"x": x, "y": y})
    with pytest.raises(InvalidFeedError, match="given 'x', 'y' by name"):
        step(x=x, y=y)


def test_a_batch_of_other_parts_is_refused() -> None:
    with pytest.raises(InvalidFeedError, match="has 1 parts, and the step was compiled for 2"):
        placed("mlp")(task_of("mlp").batches[0][0])


def test_a_batch_of_other_sizes_or_types_is_refused_in_terms_of_the_example() -> None:
    step, (x, labels) = placed("mlp"), task_of("mlp").batches[0]
    with pytest.raises(
        InvalidFeedError, match=r"part 0 of the batch is float32\[7, 8\], .* for float32\[16, 8\]"
    ) as told:
        step(x[:7], labels[:7])
    assert "drop_last" in told.value.hint
    with pytest.raises(InvalidFeedError, match=r"part 1 of the batch is int32\[16\], .* for int64\[16\]"):
        step(x, labels.int())
    assert step.steps == 0


def test_rows_are_for_tables() -> None:
    task = task_of("attention")
    with pytest.raises(InvalidModelError, match=r"'first.weight' is updated by rows.*layer_norm"):
        capture(task.model, task.loss, optimizer=LazyAdam(), example_batch=task.batches[0])


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (lambda model, x, _: model(x), "a tensor of shape"),
        (lambda _, x, __: x.sum(), "depends on no parameter"),
        (lambda model, x, _: model(x).sum() if x.sum() > 0 else model(x).mean(), r"torch\.export refuses"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Callable[..., torch.Tensor], why: str) -> None:
    task = task_of("mlp")
    with pytest.raises(InvalidModelError, match=why):
        capture(task.model, loss, optimizer=SGD(lr=0.1), example_batch=task.batches[0])


def test_parts_of_an_example_may_be_one_tensor() -> None:
    model, (x, y) = torch.nn.Linear(3, 3), (torch.ones(2, 3), torch.zeros(2, 3))

    def loss_of(model: torch.nn.Module, given: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(model(given), wanted)

    step_of = capture(model, loss_of, optimizer=SGD(0.0), example_batch=(x, x))
    step = place(step_of, running=EMULATED, hardware="emulated", placement="all-cpu")
    for batch in ((x, y), (y, x)):
        assert step(*batch).item() == pytest.approx(loss_of(model, *batch).item())


def test_the_report_names_the_updates() -> None:
    step = placed("mlp", "optimal")
    assert "update/0.weight" in {decision.op for decision in step.plan.decisions}
    assert "hetpart.adamw" in step.report()


def seconds_beside(plan: Plan, device: str) -> dict[str, float]:
    """How long each other lane works while the partitions of ``device`` that update do."""
    assert plan.timeline is not None
    tasks, found = plan.timeline.tasks, dict[str, float]()
    updating = {part.id for part in plan.partitions if any(op.startswith("update/") for op in part.ops)}
    for one, other in product([task for task in tasks if task.lane == device and task.index in updating], tasks):
        seconds = min(one.end, other.end) - max(one.start, other.start)
        if other.lane != device and seconds > 0:
            found[other.lane] = found.get(other.lane, 0.0) + seconds
    return found


def test_the_report_tells_what_updates_run_beside() -> None:
    told = 0
    for pin in ("node:update/4.*=cpu", "node:update/0.*=cpu", "*=cpu"):
        plan = placed("mlp", "all-accelerator", pin=pin, overlap=True)
        report = plan.report(width=200)
        for device in {decision.device for decision in plan.plan.decisions if decision.op.startswith("update/")}:
            lanes = sorted(seconds_beside(plan.plan, device).items())
            beside = ", ".join(f"{lane} for {format_seconds(seconds)}" for lane, seconds in lanes) or "nothing"
            assert f"{device}: its updates run beside {beside}" in report
            told += bool(lanes)
    assert told
    assert "cpu: its updates run beside nothing." in report


def test_a_dropout_keeps_what_its_seed_and_the_number_of_the_call_say() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.25), torch.nn.Linear(8, 1, bias=False))
    x = torch.ones(4096, 8)

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).mean()

    step = capture(model, loss, optimizer=SGD(lr=0.0), example_batch=(x,))
    steps = [place(step, running=EMULATED, hardware="emulated", placement=f"random:{n}", seed=n // 2) for n in range(4)]
    losses = [[run(x).item() for _ in range(3)] for run in steps]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # wherever it runs
    assert losses[2] == pytest.approx(losses[3], rel=1e-5)
    assert len({round(value, 6) for run in (losses[0], losses[2]) for value in run}) == 6
    whole = model[1].weight.sum().item()
    assert losses[0] == pytest.approx([whole] * 3, abs=0.05)  # a mean of 4096 rows


def test_a_dropout_hands_back_gradients_of_what_it_kept() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Dropout(0.5))
    x = torch.ones(1, 4)

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).sum()

    step = capture(model, loss, optimizer=SGD(lr=1.0), example_batch=(x,))
    run = place(step, running=EMULATED, hardware="emulated", seed=7)
    before = model[0].weight.detach()
    made = run(x).item()
    moved = before - run.state_dict()["tensors"]["0.weight"]
    rows = moved[:, 0]
    assert set(rows.round(decimals=4).tolist()) <= {0.0, 2.0}
    assert made == pytest.approx((before.sum(1) * rows).sum().item(), rel=1e-4)


def test_compile_is_a_function_however_often_it_is_asked_for() -> None:
    import hetpart

    assert [hetpart.training.compile for _ in range(2)] == [compile_step] * 2


def test_a_step_is_planned_before_its_parameters_exist() -> None:
    """And as the one of the same model that has them."""
    task = task_of("mlp")
    given: dict[str, Any] = {"optimizer": AdamW(lr=1e-2), "example_batch": task.batches[0]}
    empty = copy.deepcopy(task.model).to("meta")
    options: dict[str, Any] = {"hardware": "emulated", "placement": "random:1"}
    ours = hetpart.training.plan(empty, task.loss, **given, **options)
    theirs = planned_step(captured("mlp"), **options)
    assert ours.plan.decisions == theirs.plan.decisions
    assert ours.plan.devices == theirs.plan.devices
    with pytest.raises(InvalidModelError, match="has a form and no content") as refused:
        hetpart.training.compile(empty, task.loss, emulate=True, **given, **options)
    assert "hetpart.training.plan" in refused.value.hint


def test_a_plan_takes_what_compile_does_and_is_that_of_the_step() -> None:
    task = task_of("mlp")
    signatures = [inspect.signature(taker).parameters for taker in (hetpart.training.plan, compile_step)]
    assert signatures[0] == signatures[1]
    given: dict[str, Any] = {"optimizer": AdamW(lr=1e-2), "example_batch": task.batches[0], "hardware": "emulated"}
    running: dict[str, Any] = {
        "schedule": lambda _: 1.0,
        "seed": 3,
        "emulate": True,
        "session_threads": 1,
        "record": True,
    }
    plain = hetpart.training.plan(task.model, task.loss, **given)
    assert hetpart.training.plan(task.model, task.loss, **given, **running).plan == plain.plan
    given |= {**running, "loss_scale": 128.0, "overlap": True}
    planned = hetpart.training.plan(task.model, task.loss, **given)
    assert planned.plan != plain.plan
    step = compile_step(task.model, task.loss, **given)
    assert planned.plan.decisions == step.plan.decisions
    assert planned.plan.devices == step.plan.devices
    assert planned.plan.inputs == step.plan.inputs
    wrong: dict[str, Any] = {"schedule": 0.5, "seed": None, "loss_scale": -1.0}
    for name, value in wrong.items():
        with pytest.raises(InvalidOptionError, match=f"{name} cannot be"):
            hetpart.training.plan(task.model, task.loss, **{**given, name: value})


@pytest.mark.parametrize("pin", [None, "node:update/*=cpu"])
def test_runs_hold_what_was_planned(pin: str | None, tmp_path: Path) -> None:
    """By the accounts of ONNX Runtime and of the runtime; PyTorch makes the updates."""
    made, batch = captured("mlp"), task_of("mlp").batches[0]
    planned = planned_step(made, hardware="emulated", threads=1, placement="all-accelerator", pin=pin)
    bundle, watch = planned.bundle(), ValueWatch()
    with hetpart.Session(bundle, profiling_options(tmp_path), emulate=True, threads=1, record=watch) as session:
        step = Step(PlannedStep(planned, session, made.program, made.rest), made.contents, None)
        for _ in range(3):
            step(*batch)
        held = session.held_memory(bundle, watch)["cuda:0"]
    use = planned.plan.device("cuda:0")
    assert held.states == use.state_bytes
    assert (held.states > 0) == (pin is None)
    assert 0.8 * use.peak_bytes <= held.peak <= use.peak_bytes


@pytest.mark.parametrize(("compiled_for", "given"), [(1.0, 2.0), (True, 1), (None, 0.5)])
def test_another_number_than_was_traced_is_refused(compiled_for: Any, given: Any) -> None:
    task = task_of("mlp")
    x, labels = task.batches[0]

    def loss_of(model: torch.nn.Module, x: torch.Tensor, labels: torch.Tensor, factor: Any) -> torch.Tensor:
        return task.loss(model, x, labels) * (3.0 if factor is None else factor)

    step = compile_step(
        copy.deepcopy(task.model), loss_of, optimizer=SGD(0.1), example_batch=(x, labels, compiled_for),
        placement="all-cpu",
    )  # fmt: skip
    step(x, labels, compiled_for)
    with pytest.raises(InvalidFeedError, match=f"part 2 of the batch is {given}, .* compiled for {compiled_for}"):
        step(x, labels, given)


@pytest.mark.parametrize("kind", [list, tuple, lambda parts: {"x": parts}], ids=["list", "tuple", "dict"])
def test_a_batch_of_batches_is_refused(kind: Callable[..., Any]) -> None:
    task = task_of("mlp")
    with pytest.raises(InvalidOptionError, match="part 0 of example_batch is a"):
        capture(task.model, task.loss, optimizer=SGD(0.1), example_batch=(kind(task.batches[0]),))
