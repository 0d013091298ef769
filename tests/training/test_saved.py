# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""A step saved as an ONNX model: placed and run by the command line, it computes what the step computes."""

from __future__ import annotations

import json
import logging
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import hetpart
from hetpart.cli import main
from hetpart.errors import HetpartError, InvalidFeedError, InvalidModelError, InvalidOptionError
from hetpart.graph.notes import STATES, TOGETHER
from hetpart.training import SGD, Adam, Group, Groups, LazyAdam
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.step import Step

ROWS, WIDTH = 50, 40


class Clicked(nn.Module):
    """A table, a layer that is not trained and does not stay in the model's file, dropout, and two more layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(requires_grad=False)
        self.layers = nn.Sequential(nn.Dropout(0.2), nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.frozen(self.table(ids).sum(1))).squeeze(1)


def loss_of(model: nn.Module, ids: Tensor, label: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model(ids), label)


def batch_of(number: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(number)
    return torch.randint(0, ROWS, (6, 3), generator=drawn), torch.randint(0, 2, (6,), generator=drawn).float()


@cache
def captured() -> CapturedStep:
    torch.manual_seed(0)
    rules = Groups(Adam(1e-2), (Group("table.*", LazyAdam(1e-2)), Group("layers.3.*", target="cpu")))
    return capture(Clicked(), loss_of, optimizer=rules, example_batch=batch_of(0))


def placed(**running: Any) -> Step:
    how = Running(emulate=True, threads=1, overlap=False, **running)
    return place(captured(), running=how, hardware="emulated", placement="random:1", seed=3)


def hetpart_command(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def saved(folder: Path) -> tuple[Step, Path]:
    step = placed()
    for number in range(3):
        step(*batch_of(number))
    files = step.save(folder / "step.onnx", *batch_of(3))
    assert [file.name for file in files] == ["step.onnx", "step.onnx.data", "step.safetensors"]
    return step, folder / "step.onnx"


def partitioned(model: Path, *more: str) -> Path:
    bundle = model.with_suffix(".hetpart")
    made = hetpart_command("partition", model, "--hardware", "emulated", "-o", bundle, *more)
    assert made.exit_code == 0, made.output
    return bundle


@pytest.mark.parametrize("placement", ["optimal", "random:4", "all-accelerator"])
def test_a_saved_step_is_placed_and_run_by_the_command_line(placement: str, tmp_path: Path) -> None:
    step, model = saved(tmp_path)
    bundle = partitioned(model, "--placement", placement)
    plan = hetpart.Session(bundle, emulate=True).plan
    devices = {decision.op: decision.device for decision in plan.decisions}
    assert devices["update/layers.3.weight"] == devices["update/layers.3.bias"] == "cpu"
    assert devices["lookup/table.weight"] == devices["update/table.weight"]
    assert set(plan.states) == {state.given for state in captured().program.states}
    ran = hetpart_command("run", bundle, "--emulate", "--input", model.with_suffix(".safetensors"), "--json")
    assert ran.exit_code == 0, ran.output
    results = {output["name"]: output for output in json.loads(ran.stdout)["outputs"]}
    assert results["loss"]["value"] == pytest.approx(step(*batch_of(3)).item(), rel=1e-6)


def test_a_saved_step_goes_on_as_the_step_does(tmp_path: Path) -> None:
    step, model = saved(tmp_path)
    bundle = partitioned(model, "--placement", "random:1")
    session, fed = hetpart.Session(bundle, emulate=True, threads=1), load_file(model.with_suffix(".safetensors"))
    for number in range(3, 6):
        losses = session.run(["loss"], fed)
        assert losses[0].item() == step(*batch_of(number)).item()
        fed = {name: fed[name] for name in ("progress", "seed")}
        fed["progress"][0] += 1
        fed["seed"][1] += 1
        fed |= dict(zip(captured().program.batch, batch_of(number + 1), strict=True))
    kept = step.state_dict()["tensors"]
    for state in captured().program.states:
        assert torch.equal(torch.from_numpy(session.state()[state.given]), kept[state.name]), state.name


def test_repeated_runs_give_what_the_last_one_made(tmp_path: Path) -> None:
    """One that is not measured and three that are, as eager PyTorch makes them."""
    torch.manual_seed(0)
    eager, batch = nn.Linear(6, 3), (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
    loss_fn = lambda model, given, label: nn.functional.cross_entropy(model(given), label)  # noqa: E731
    step = place(capture(eager, loss_fn, optimizer=SGD(0.1), example_batch=batch), hardware="emulated")
    step.save(tmp_path / "step.onnx", *batch)
    bundle, fed = partitioned(tmp_path / "step.onnx", "--placement", "random:1"), tmp_path / "step.safetensors"
    options = ("--emulate", "--input", fed, "--repeat", "3", "--output", tmp_path / "out", "--json")
    ran = hetpart_command("run", bundle, *options)
    assert ran.exit_code == 0, ran.output
    optimizer, losses = torch.optim.SGD(eager.parameters(), 0.1), list[float]()
    for _ in range(4):
        optimizer.zero_grad()
        loss = loss_fn(eager, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    results = {output["name"]: output for output in json.loads(ran.stdout)["outputs"]}
    assert list(results) == [spec.name for spec in step.plan.outputs]
    assert results["loss"]["value"] == pytest.approx(losses[-1], rel=1e-6)
    for name, parameter in eager.named_parameters():
        made = np.load(tmp_path / "out" / f"{name}.new.npy")
        np.testing.assert_allclose(made, parameter.detach().numpy(), rtol=1e-5, atol=1e-7)
    checked = hetpart_command("run", bundle, *options, "--check")
    assert "PyTorch runs" in checked.stderr


def test_what_lies_on_the_host_is_written_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = dict[str, int]()

    def noted(tensors: dict[str, Tensor], path: Path) -> None:
        written.update({name: tensor.data_ptr() for name, tensor in tensors.items()})
        path.touch()

    monkeypatch.setattr("safetensors.torch.save_file", noted)
    step, ids, label = placed(), *batch_of(0)
    step.save(tmp_path / "step.onnx", ids, label)
    states = step.session.state()
    on_host = [name for name in states if states.lies_on_host(name)]
    assert len(on_host) > 3
    assert [written[name] for name in on_host] == [states.view(name).ctypes.data for name in on_host]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, ids, label = placed(), *batch_of(0)
    files = step.save(tmp_path / "step.onnx", ids, label)
    before = [file.read_bytes() for file in files]

    def full(_: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(HetpartError, match=r"step\.safetensors cannot be written: No space left"):
        step.save(tmp_path / "step.onnx", ids, label)
    assert [file.read_bytes() for file in files] == before
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_step_is_saved_without_a_batch(tmp_path: Path) -> None:
    files = placed().save(tmp_path / "folder" / "step.onnx")
    assert [file.name for file in files] == ["step.onnx", "step.onnx.data"]


def test_verbose_runs_log_every_kernel_of_the_host_with_its_microseconds(tmp_path: Path) -> None:
    _, model = saved(tmp_path)
    fed = model.with_suffix(".safetensors")
    bundle = partitioned(model)
    ran = hetpart_command("run", bundle, "--emulate", "--input", fed, "-v")
    told = re.findall(r"(\S+) \((hetpart\.\w+)\.default\) by PyTorch costs (\d+) us", ran.stderr)
    own = re.findall(r"  (\S+) \(\w+[^)]*\) by CPUExecutionProvider costs \d+ us", ran.stderr)
    on_host = [one for one in hetpart.load_plan(bundle).decisions if one.device == "cpu"]
    products = {one.op for one in on_host if one.op_type in {"Gemm", "MatMul"}}
    assert products
    assert products <= set(own) <= {one.op for one in on_host}
    assert {(name, op) for name, op, _ in told} >= {
        ("lookup/table.weight", "hetpart.lookup"),
        ("update/table.weight", "hetpart.lazyadam"),
        ("update/layers.1.weight", "hetpart.adam"),
    }
    assert all(int(number) < 10**8 for *_, number in told)


def test_a_recorded_step_logs_its_kernels_and_writes_a_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    step = placed(record=True)
    caplog.set_level(logging.INFO, "hetpart.run")
    step(*batch_of(0))
    updates = [f"update/{name}" for name in ("table.weight", "layers.1.weight", "layers.3.bias")]
    assert all(re.search(rf"{re.escape(update)} \(.*costs \d+ us", caplog.text) for update in updates)
    assert "CPUExecutionProvider" not in caplog.text
    caplog.clear()
    step(*batch_of(1))
    own = dict(re.findall(r"  (\S+) \((\w+)[^)]*\) by CPUExecutionProvider costs \d+ us", caplog.text))
    planned = {one.op: one.op_type for one in step.plan.decisions if one.device == "cpu"}
    assert own
    assert {name: kernel.removeprefix("Fused") for name, kernel in own.items()}.items() <= planned.items()
    caplog.clear()
    step(*batch_of(2))
    assert "CPUExecutionProvider" not in caplog.text
    assert "update/table.weight" in caplog.text
    step.session.write_trace(tmp_path / "trace.json")
    told = {event["name"]: event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert all(told[update]["args"]["provider"] == "PyTorch" for update in updates)


def test_a_step_that_is_not_recorded_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hetpart.run")
    placed()(*batch_of(0))
    assert "costs" not in caplog.text


def test_what_no_session_runs_alone_is_told(tmp_path: Path) -> None:
    _, model = saved(tmp_path)
    bundle, fed = partitioned(model), model.with_suffix(".safetensors")
    ran = hetpart_command("run", bundle, "--emulate", "--input", fed, "--check")
    assert ran.exit_code == 2
    assert "step.onnx has ops that PyTorch runs" in ran.stderr
    missing = hetpart_command("run", bundle, "--emulate", "--input", tmp_path / "other.safetensors")
    assert missing.exit_code == 2
    assert "other.safetensors' for inputs: there is no such file" in missing.stderr
    twice = hetpart_command("run", bundle, "--emulate", "--input", fed, "--input", fed)
    assert "is given twice" in twice.stderr


def test_a_run_that_fails_tells_of_what_can_be_compared_for_a_step(tmp_path: Path) -> None:
    batch = (torch.ones(4, 6), torch.tensor([0, 1, 2, 0]))
    step_of = capture(
        nn.Linear(6, 3),
        lambda model, x, labels: nn.functional.cross_entropy(model(x), labels),
        optimizer=Adam(1e-2),
        example_batch=batch,
    )
    step = place(step_of, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu")
    model, fed = tmp_path / "step.onnx", tmp_path / "wrong.safetensors"
    step.save(model, *batch)
    given = load_file(model.with_suffix(".safetensors"))
    save_file(given | {step_of.program.batch[1]: batch[1] + 7}, fed)
    ran = hetpart_command("run", partitioned(model), "--emulate", "--input", fed)
    assert ran.exit_code == 2
    assert "of a training step a plan with --placement all-cpu does" in " ".join(ran.stderr.split())


def test_a_step_is_no_other_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"saved as an \.onnx file, not as 'step\.pt'"):
        placed().save(tmp_path / "step.pt")
    with pytest.raises(InvalidFeedError, match="has 1 parts"):
        placed().save(tmp_path / "step.onnx", batch_of(0)[0])


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (STATES, "{", "no JSON"),
        (STATES, '["a"]', "no object of texts"),
        (STATES, '{"a": 1}', "no object of texts"),
        (TOGETHER, '["a"]', "no array of arrays of texts"),
    ],
)
def test_notes_of_another_form_are_refused(key: str, text: str, why: str) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(captured().exported.loaded.proto)
    kept = [entry for entry in model.metadata_props if entry.key != key]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=key, value=text)
    for tensor in [tensor for tensor in model.graph.initializer if tensor.external_data]:
        tensor.CopyFrom(onnx.numpy_helper.from_array(torch.zeros(list(tensor.dims)).numpy(), tensor.name))
    with pytest.raises(InvalidModelError, match=why):
        hetpart.partition(model, hardware="emulated")
