"""Operators without a translation to ONNX: PyTorch runs them, in partitions of their own, and everything names them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

import hetpart
from hetpart.cli import main
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import DeviceUnavailableError, ExecutionError, InvalidBundleError, InvalidModelError
from hetpart.frontend.calls import Call
from hetpart.runtime import called
from hetpart.runtime.random_feeds import random_feeds
from tests.pytorch.test_partition import assert_equal
from tests.test_public_api import ROOT

EMULATED = "emulated"
PLACEMENTS = ("optimal", "all-cpu", "all-accelerator", "random:1", "random:2")


@torch.library.custom_op("hetpart_tests::mixed", mutates_args=())
def mixed(x: Tensor, others: list[Tensor], power: float, how: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Arguments of every kind, and two results."""
    total = sum((other.sum() for other in others), torch.zeros(()))
    return (x.abs() ** power).to(dtype), (x.flip(-1) if how == "flip" else x) * total


@mixed.register_fake
def _(x: Tensor, _others: list[Tensor], _power: float, _how: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, dtype=dtype), torch.empty_like(x)


@torch.library.custom_op("hetpart_tests::halves", mutates_args=(), device_types="cpu")
def halves(x: Tensor, number: int) -> list[Tensor]:
    """A list of results, on the processor alone."""
    return [x[:number].clone(), x[number:].clone()]


@halves.register_fake
def _(x: Tensor, number: int) -> list[Tensor]:
    return [torch.empty_like(x[:number]), torch.empty_like(x[number:])]


@torch.library.custom_op("hetpart_tests::row_sums", mutates_args=())
def row_sums(x: Tensor) -> Tensor:
    """Of however many rows."""
    return x.sum(1)


@row_sums.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[0])


@torch.library.custom_op("hetpart_tests::inverted", mutates_args=())
def inverted(x: Tensor) -> Tensor:
    return (~x).float()


@inverted.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty(x.shape)


class Inverted(nn.Module):
    """Truth values that are weights, and that are computed of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True]))

    def forward(self, x: Tensor) -> Tensor:
        return x + inverted(self.mask) + inverted(torch.zeros(3, dtype=torch.bool)) + inverted(x > 0)


class Mixed(nn.Module):
    """A custom operator between others, on weights, on what is made of weights, and on values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 64)
        self.scale = nn.Parameter(torch.randn(64, 3))

    def forward(self, x: Tensor) -> Tensor:
        powers, flipped = mixed(self.fc(x), [self.fc.weight, self.scale.t() + 1], 1.5, "flip", torch.float64)
        (fixed, _) = mixed(self.scale, [], 2.0, "same", torch.float32)
        return torch.relu(flipped) @ fixed + powers.sum().float()


class Eigenvalues(nn.Module):
    """An operator of PyTorch's own that has no translation."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.eigvalsh(self.fc(x) @ self.fc(x).mT) * 2


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first, second = halves(torch.sin(x), x.shape[0] // 2)
        return torch.cos(first) @ second.T


class Half(nn.Module):
    """Of values, and of a constant that ONNX Runtime has no kernel for in its type."""

    def forward(self, x: Tensor) -> Tensor:
        return row_sums(x.to(torch.bfloat16) * 2).float() + row_sums(torch.ones(1, 4, dtype=torch.bfloat16)).float()


class Turned(nn.Module):
    """By complex numbers that the code writes out."""

    def forward(self, x: Tensor) -> Tensor:
        turned = (x * 1j + (1 - 2j)) / torch.complex(x, x).mul(0.5j)
        return turned.abs() + (2j - x).imag + torch.view_as_real(turned).sum(-1)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mixed": (Mixed, (5, 64)),
    "eigenvalues": (Eigenvalues, (3, 8, 8)),
    "halves": (Halves, (6, 4)),
    "half": (Half, (4, 4)),
    "truth values": (Inverted, (4, 3)),
    "complex numbers": (Turned, (4, 3)),
}


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    kind, shape = CASES[name]
    return kind().eval(), torch.randn(*shape)


def expected(module: nn.Module, *given: Tensor) -> Any:
    with torch.no_grad():
        return module(*given)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_computes_what_eager_pytorch_does(name: str, tmp_path: Path) -> None:
    module, x = made(name)
    exported = hetpart.export(module, args=(x,))
    wanted = expected(module, x)
    for placement in PLACEMENTS:
        planned = hetpart.partition(exported, hardware=EMULATED, placement=placement)
        run = planned.to_module(emulate=True)
        assert_equal(run(x), wanted)
        assert_equal(run(x), wanted)
    kinds = {op.name: op.domain == "hetpart.torch" for op in planned.graph.ops}
    assert any(kinds.values())
    for part in planned.plan.partitions:
        assert len({kinds[op] for op in part.ops}) == 1
    bundle = planned.save(tmp_path / "made.hetpart")
    with hetpart.Session(bundle, emulate=True) as session:
        (again,) = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(again, wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_model_computes_what_eager_pytorch_does(name: str) -> None:
    """Its weights lie in the memory of the model, in no file."""
    module, x = made(name)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend, options={"hardware": EMULATED, "emulate": True})
    with torch.no_grad():
        assert_equal(compiled(x), expected(module, x))


def test_sizes_follow_from_the_dimensions_that_are_bound() -> None:
    module, x = made("mixed")
    planned = hetpart.partition(
        module, args=(x,), dynamic_shapes={"x": {0: "batch"}}, shape={"batch": 7}, hardware=EMULATED,
        placement="random:1",
    )  # fmt: skip
    assert all(value.is_static for value in planned.graph.values)
    other = torch.randn(7, 64)
    assert_equal(planned.to_module(emulate=True)(other), expected(module, other))


def test_what_only_a_run_can_size_is_handed_on() -> None:
    module, x = made("mixed")
    for placement in ("random:1", "all-cpu", "all-accelerator"):
        planned = hetpart.partition(
            module,
            args=(x,),
            dynamic_shapes={"x": {0: "batch"}},
            shape="batch=?",
            hardware=EMULATED,
            placement=placement,
        )
        assert not all(value.is_static for value in planned.graph.values)
        run = planned.to_module(emulate=True)
        for rows in (2, 9, 2):
            other = torch.randn(rows, 64)
            assert_equal(run(other), expected(module, other))


def test_pins_and_kernels_say_where_it_runs() -> None:
    module, x = made("eigenvalues")
    for device in ("cpu", "cuda:0"):
        planned = hetpart.partition(
            module, args=(x,), hardware=EMULATED, pin={"op:aten._linalg_eigh.default": device, "op:MatMul": "cpu"}
        )
        found = {decision.device for decision in planned.plan.decisions if "eigh" in decision.op_type}
        assert found == {device}
        assert_equal(planned.to_module(emulate=True)(x), expected(module, x))
    module, x = made("halves")
    planned = hetpart.partition(module, args=(x,), hardware="l4+generic-2core", placement="all-accelerator")
    assert {one.device for one in planned.plan.decisions if "halves" in one.op_type} == {"cpu"}


def test_report_explain_and_lint_name_it() -> None:
    module, x = made("eigenvalues")
    exported = hetpart.export(module, args=(x,))
    planned = hetpart.partition(exported, hardware=EMULATED)
    assert "PyTorch runs what has no translation to ONNX: aten._linalg_eigh.default" in planned.report(width=200)
    told = hetpart.explain(exported, "_linalg_eigh", hardware=EMULATED).report(width=200)
    assert "PyTorch runs it" in told
    findings = hetpart.lint(exported, hardware=EMULATED)
    assert any("aten._linalg_eigh.default" in finding.message for finding in findings)
    split = planned.to_fx({"cuda:0": "cpu"})
    assert_equal(split(x), expected(module, x))


class Averages(nn.Module):
    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 4, mode="mean", include_last_offset=ends)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.bags(ids, offsets)


@pytest.mark.parametrize("ends", [False, True])
def test_bags_are_made_up_as_pytorch_takes_them(ends: bool) -> None:
    """Ids of rows, and offsets that begin with 0 and never fall."""
    module, example = Averages(ends=ends), (torch.arange(12), torch.tensor([0, 3, 7]))
    partitioned = hetpart.partition(module, args=example, hardware=EMULATED, placement="all-cpu")
    for seed in range(5):
        feeds = random_feeds(partitioned.plan.inputs, seed)
        with partitioned.session(emulate=True) as session:
            [found] = session.run(None, feeds)
        eager = module(*(torch.from_numpy(feeds[spec.name]) for spec in partitioned.plan.inputs))
        np.testing.assert_allclose(found, eager.detach().numpy(), rtol=1e-6)
        assert feeds["ids"].max() > 1


def test_a_program_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = made("mixed")
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    answer = CliRunner().invoke(
        main, ["partition", "net.pt2", "--hardware", EMULATED, "--pin", "op:hetpart_tests.mixed.default=cuda"]
    )
    assert answer.exit_code == 0, answer.output
    assert "hetpart_tests.mixed.default ×2" in answer.stdout
    answer = CliRunner().invoke(main, ["run", "net.hetpart", "--emulate", "--input", "x=x.npy", "--output", "made"])
    assert answer.exit_code == 0, answer.output
    (result,) = (np.load(file) for file in (tmp_path / "made").glob("*.npy"))
    np.testing.assert_allclose(result, expected(module, x).numpy(), rtol=1e-4, atol=1e-5)
    answer = CliRunner().invoke(main, ["emit", "net.hetpart", "-o", "whole.onnx"])
    assert answer.exit_code == 2
    assert "runs in PyTorch" in answer.output


def test_a_bundle_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = made("mixed")
    bundle = hetpart.partition(module, args=(x,), hardware=EMULATED).save(tmp_path / "made.hetpart")
    code = f"import hetpart; hetpart.Session({str(bundle)!r}, emulate=True)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "knows no operator hetpart_tests::mixed" in answer.stderr
    with pytest.raises(ExecutionError) as refused:
        Call.read('{"op": "nobody::knows", "args": [], "kwargs": {}}')
    assert "import the module that registers it" in refused.value.hint
    for text, why in (
        ("no call", "no call"),
        ('{"op": "aten::from_file", "args": ["x"], "kwargs": {}}', "opens files"),
    ):
        with pytest.raises(InvalidBundleError, match=why):
            Call.read(text)
    monkeypatch.setattr(called, "find_spec", lambda _: None)
    with pytest.raises(DeviceUnavailableError, match="PyTorch runs, and it is not installed"):
        hetpart.Session(bundle, emulate=True)


def test_what_fails_in_pytorch_is_named() -> None:
    planned = hetpart.partition(Eigenvalues().eval(), args=(torch.ones(3, 8, 8),), hardware=EMULATED)
    with pytest.raises(ExecutionError, match=r"_linalg_eigh.*failed|failed.*_linalg_eigh"):
        planned.to_module(emulate=True)(torch.full((3, 8, 8), torch.nan))


class Branches(nn.Module):
    """An operator that is PyTorch's in one branch, another in a branch of a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def spectrum(x: Tensor) -> Tensor:
            return torch.linalg.eigvalsh(self.fc(x) @ self.fc(x).mT)

        def inner(x: Tensor) -> Tensor:
            return torch.cond(x[0, 0] > 0.5, spectrum, lambda x: x[1] * 2, (x,))

        first = torch.cond(x.sum() > 0, spectrum, lambda x: x[0] + 1, (x,))
        return first, torch.cond(x.sum() > -1, inner, lambda x: x[2] * 3, (x,))


def test_what_has_a_form_for_it_writes_its_results_to_given_memory() -> None:
    from hetpart.training import row_operators

    del row_operators  # it registers them
    lookup = Call.read('{"op": "hetpart::lookup", "args": [{"tensor": 0}, {"tensor": 1}, "table"], "kwargs": {}}')
    table, ids, into = torch.randn(9, 4), torch.tensor([[3, 0], [8, 8]]), torch.full((2, 2, 4), torch.nan)
    assert lookup.writes
    lookup.write([table, ids], [into], torch.device("cpu"))
    assert torch.equal(into, table[ids])
    assert torch.equal(lookup([table, ids], torch.device("cpu"))[0], table[ids])
    exponential = Call.read('{"op": "aten::exp", "args": [{"tensor": 0}], "kwargs": {}}')
    assert not exponential.writes


def test_in_a_branch_both_branches_are_computed() -> None:
    torch.manual_seed(0)
    module, eye = Branches().eval(), torch.eye(3)
    planned = hetpart.partition(module, args=(eye,), hardware=EMULATED)
    assert any("eigh" in op.op_type for op in planned.graph.ops)
    run, split = planned.to_module(emulate=True), planned.to_fx({"cuda:0": "cpu"})
    for x in (eye, eye / 10, -eye, -eye / 10):
        assert_equal(run(x), expected(module, x))
        assert_equal(split(x), expected(module, x))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch deprecates what it calls itself
def test_in_a_loop_pytorch_runs_the_loop() -> None:
    class Loop(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            def body(x: Tensor) -> tuple[Tensor]:
                return (torch.diag(torch.linalg.eigvalsh(x)) + 1,)

            return torch._higher_order_ops.while_loop(lambda x: x.sum() < 5, body, (x,))[0]

    planned = hetpart.partition(Loop(), args=(torch.eye(3),), hardware=EMULATED)
    assert_equal(planned.to_module(emulate=True)(torch.eye(3)), expected(Loop(), torch.eye(3)))
    assert any("higher_order.while_loop" in note for note in planned.plan.notes)


LIBRARY = torch.library.Library("hetpart_refused", "FRAGMENT")
LIBRARY.define("formless(Tensor x) -> Tensor")


def test_an_operator_without_a_form_is_named_with_what_to_do() -> None:
    class Calling(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.ops.hetpart_refused.formless(x * 2)

    with pytest.raises(InvalidModelError, match=r"hetpart_refused\.formless") as refused:
        hetpart.partition(Calling(), args=(torch.ones(2),), hardware=EMULATED)
    assert "register_fake" in refused.value.hint
