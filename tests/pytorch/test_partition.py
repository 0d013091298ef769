"""From PyTorch to a plan that computes what the module does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from onnx import parser
from torch import Tensor, nn
from torch.nn import functional

import hetpart
from hetpart.cli import main
from hetpart.errors import HetpartError, InvalidFeedError, InvalidModelError, InvalidOptionError
from tests.pytorch.conftest import Models
from tests.pytorch.models import CASES, MLP, mlp

EMULATED = "emulated"


def assert_equal(made: Any, expected: Any) -> None:
    """The same values in the same structure."""
    flat, spec = torch.utils._pytree.tree_flatten(made)
    wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == wanted_spec
    for one, other in zip(flat, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("placement", ["optimal", "random:1"])
@pytest.mark.parametrize("name", CASES)
def test_a_plan_computes_what_eager_pytorch_does(known: Models, name: str, placement: str) -> None:
    case = known.case(name)
    module = known.planned(name, placement).to_module(emulate=True)
    assert_equal(module(*case.args, **case.kwargs), case.result())


@pytest.mark.parametrize("share", [0.25, 0.75])
@pytest.mark.parametrize("name", ["gpt2"])
def test_budgets_are_kept_and_change_no_result(known: Models, name: str, share: float) -> None:
    case, exported = known(name)
    graph = hetpart.load(exported)
    budget = int(share * sum(weight.nbytes for weight in graph.weights))
    planned = hetpart.partition(exported, hardware=EMULATED, budget=budget)
    assert all(use.peak_bytes <= budget for use in planned.plan.devices if use.budget_bytes == budget)
    assert_equal(planned.to_module(emulate=True)(**case.kwargs), case.result())


def test_two_calls_do_not_share_results(known: Models) -> None:
    case, module = known.case("mlp"), known.planned("mlp", "random:1").to_module(emulate=True)
    first = module(*case.args)
    kept = first.clone()
    other = torch.ones_like(case.args[0])
    assert_equal(module(other), case.module(other).detach())
    assert_equal(first, kept)


def test_every_form_of_a_model_gives_one_plan(tmp_path: Path) -> None:
    case = mlp()
    program = torch.export.export(case.module, case.args)
    torch.export.save(program, tmp_path / "net.pt2")
    traced = torch.fx.symbolic_trace(case.module)
    plans = [
        hetpart.partition(case.module, args=case.args, hardware=EMULATED),
        hetpart.partition(traced, args=case.args, hardware=EMULATED),
        hetpart.partition(program, hardware=EMULATED),
        hetpart.partition(tmp_path / "net.pt2", hardware=EMULATED),
    ]
    kinds = [[(decision.op_type, decision.device) for decision in one.plan.decisions] for one in plans]
    assert kinds == [kinds[0]] * 4
    assert [one.plan.model.name for one in plans] == ["MLP", "MLP", "MLP", "net"]
    for one in plans:
        assert_equal(one.to_module(emulate=True)(*case.args), case.result())


def test_a_file_is_partitioned_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = mlp()
    torch.export.save(torch.export.export(case.module, case.args), tmp_path / "net.pt2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    answer = CliRunner().invoke(
        main, ["partition", "net.pt2", "--hardware", EMULATED, "--budget", "1MB", "--pin", "fc1.*=cpu"]
    )
    assert answer.exit_code == 0, answer.output
    assert "fc1" in answer.stdout
    (tmp_path / "net.pt2").unlink()  # its weights are in the bundle
    x = case.args[0].numpy()
    with hetpart.Session("net.hetpart", emulate=True) as session:
        np.testing.assert_allclose(session.run(None, {"x": x})[0], case.result().numpy(), rtol=1e-4, atol=1e-5)


def test_dimensions_have_the_names_that_the_user_gave(known: Models) -> None:
    case, exported = known("shared")
    planned = hetpart.partition(exported, hardware=EMULATED, shape={"batch": 5})
    assert planned.graph.dimensions == {"batch": 5, "seq": 3}
    assert any("seq=3" in note and "batch" not in note for note in planned.plan.notes)
    ids = torch.arange(15).reshape(5, 3)
    module = planned.to_module(emulate=True)
    assert_equal(module(ids), case.module(ids).detach())
    with pytest.raises(InvalidFeedError, match=r"\[2, 3\]"):
        module(*case.args)


def test_a_dimension_without_a_name_is_called_by_its_argument() -> None:
    case, batch = mlp(), torch.export.Dim.DYNAMIC
    graph = hetpart.load(case.module, args=case.args, dynamic_shapes=({0: batch},), shape="x_dim0=7")
    assert graph.dimensions == {"x_dim0": 7}
    named = hetpart.load(case.module, args=case.args, dynamic_shapes={"x": (torch.export.Dim("rows"), None)})
    assert named.dimensions == {"rows": 3}


class TwoTables(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a.sum() * b


A, B = torch.ones(3, 4), torch.ones(5, 6)


@pytest.mark.parametrize("shapes", [{"b": {0: "m"}, "a": {0: "n"}}, {"a": ("n", None), "b": {0: "m"}}])
@pytest.mark.parametrize("call", [{"args": (A, B)}, {"kwargs": {"b": B, "a": A}}, {"args": (A,), "kwargs": {"b": B}}])
def test_dimensions_go_by_the_arguments_names(call: Any, shapes: Any) -> None:
    graph = hetpart.load(TwoTables(), **call, dynamic_shapes=shapes, shape={"n": 10, "m": 20})
    inputs = [graph.values[each] for each in graph.inputs]
    assert {value.name: value.shape for value in inputs} == {"a": (10, 4), "b": (20, 6)}


@pytest.mark.parametrize(
    ("shapes", "sizes", "said"),
    [
        ({"a": {0: "n"}, "b": {0: "n"}}, {}, r"'n' is 3 in axis 0 of 'a' and 5 in axis 0 of 'b'"),
        ({"a": {4: "n"}, "b": None}, {}, r"axis 4 of 'a', which has 2 axes: \[3, 4\]"),
        ({"a": {0: torch.export.Dim("n", min=3, max=8)}, "b": None}, {"n": 99}, r"'n' cannot be 99.* from 3 to 8"),
        ({"a": {0: torch.export.Dim("n", min=3, max=8)}, "b": None}, {"n": 1}, r"'n' cannot be 1.* from 3 to 8"),
    ],
)
def test_dimensions_that_cannot_be_are_refused(shapes: Any, sizes: Any, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        hetpart.load(TwoTables(), args=(A, B), dynamic_shapes=shapes, shape=sizes)


class Pools(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return functional.adaptive_avg_pool2d(x, (2, 3)), functional.adaptive_max_pool2d(x, 2)


def test_windows_are_those_of_the_size_that_is_planned() -> None:
    sizes = {"x": {2: "height", 3: "width"}}
    exported = hetpart.export(Pools(), args=(torch.ones(1, 2, 6, 6),), dynamic_shapes=sizes)
    x = torch.arange(2.0 * 11 * 4).reshape(1, 2, 11, 4)
    planned = hetpart.partition(exported, hardware=EMULATED, shape={"height": 11, "width": 4})
    assert_equal(planned.to_module(emulate=True)(x), Pools()(x))


class Buckets(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.bucketize(x, torch.arange(x.shape[0]).float())


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_a_search_takes_the_steps_of_the_size_that_is_planned(rows: int) -> None:
    x = torch.linspace(-1, 21, 4 * rows).reshape(rows, 4)
    planned = hetpart.partition(
        Buckets(), args=(A,), dynamic_shapes={"x": {0: "n"}}, shape={"n": rows}, hardware=EMULATED
    )
    assert_equal(planned.to_module(emulate=True)(x), Buckets()(x))


class Repeats(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        times = y.shape[0]
        return tuple(x.repeat_interleave(count, axis) for count, axis in [(times, 0), (times + 1, -1), (times, None)])


@pytest.mark.parametrize("times", [0, 1, 3, 5])
def test_what_is_repeated_as_often_as_a_size_says_is_the_axis_that_is_named(times: int) -> None:
    y = torch.ones(times, 2)
    planned = hetpart.partition(
        Repeats(), args=(A, B), dynamic_shapes={"x": None, "y": {0: "n"}}, shape={"n": times}, hardware=EMULATED
    )
    assert_equal(planned.to_module(emulate=True)(A, y[:, :1].expand(times, B.shape[1])), Repeats()(A, y))


class Scaled(nn.Module):
    def forward(self, x: Tensor, by: Any) -> Tensor:
        return x * by


@pytest.mark.parametrize(("planned", "given"), [(3, 3.0), (3, 4), (1, True)])
def test_an_argument_that_is_a_constant_is_of_the_examples_type_and_value(planned: Any, given: Any) -> None:
    module = hetpart.partition(Scaled(), args=(A.long(), planned), hardware=EMULATED).to_module(emulate=True)
    assert_equal(module(A.long(), planned), A.long() * planned)
    with pytest.raises(InvalidFeedError, match=f"argument 1 is {given!r}, and the plan was made for {planned!r}"):
        module(A.long(), given)


def test_a_program_of_any_size_takes_one_row() -> None:
    program = torch.export.export(TwoTables(), (A, B), dynamic_shapes={"a": {0: torch.export.Dim.DYNAMIC}, "b": None})
    planned = hetpart.partition(program, hardware=EMULATED, shape={"a_dim0": 1})
    assert_equal(planned.to_module(emulate=True)(A[:1], B), program.module()(A[:1], B))


def test_a_call_that_differs_from_the_example_is_refused(known: Models) -> None:
    case, module = known.case("styles"), known.planned("styles", "optimal").to_module(emulate=True)
    x, _ = case.args
    backwards = dict(reversed(case.kwargs.items()))
    assert_equal(module(x, 3, **backwards), case.result())
    with pytest.raises(InvalidFeedError, match="argument 1 is 4"):
        module(x, 4, **case.kwargs)
    with pytest.raises(InvalidFeedError, match="plan was made for"):
        module(x, 3, mask=case.kwargs["mask"])


class Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum().item() > 0 else -x


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        return x + self.seen


class Changes(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        return x * count


def test_an_argument_that_the_module_changes_is_changed() -> None:
    x, counts = torch.ones(4), [torch.zeros(4), torch.zeros(4)]
    planned = hetpart.partition(Changes(), args=(x, counts[0].clone()), hardware=EMULATED)
    for module, count in zip((planned.to_module(emulate=True), planned.to_fx({"cuda:0": "cpu"})), counts, strict=True):
        for times in (1, 2):
            assert_equal(module(x, count), x * times)
            assert_equal(count, torch.full((4,), float(times)))


def test_what_cannot_be_exported_is_refused_with_a_reason() -> None:
    x = torch.ones(4)
    with pytest.raises(InvalidOptionError, match="without arguments") as refused:
        hetpart.partition(MLP())
    assert "args=" in refused.value.hint
    with pytest.raises(InvalidModelError, match=r"torch\.export refuses Breaks"):
        hetpart.partition(Breaks(), args=(x,))
    with pytest.raises(InvalidModelError, match="changes the buffer 'seen'"):
        hetpart.partition(Counts(), args=(x,))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_call_that_is_none_of_the_module_is_told_from_code_that_cannot_be_traced() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            return x * by

    def hint(*args: Any, module: torch.nn.Module | None = None, **options: Any) -> str:
        with pytest.raises(InvalidModelError, match=r"torch\.export refuses") as refused:
            hetpart.partition(module or Scaled(), args=args, **options)
        return refused.value.hint

    x = torch.ones(4)
    assert hint(x) == "give in args= and kwargs= what the module takes: x, by"
    assert "what the module takes" in hint(x, kwargs={"other": x})
    assert "torch.from_numpy" in hint(x.numpy(), x)
    assert "every argument of the call, 'x', 'by'" in hint(x, x, dynamic_shapes={"x": {0: "n"}})
    assert "before torch.jit" in hint(x, module=torch.jit.trace(torch.nn.ReLU(), x))
    assert "data-dependent" in hint(x, module=Breaks())
    assert "data-dependent" not in hint(x, torch.ones(3))


def test_example_arguments_are_for_modules_alone(known: Models, tmp_path: Path) -> None:
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
    )
    case, exported = known("mlp")
    for model in (proto, exported, exported.original):
        with pytest.raises(InvalidOptionError, match="args"):
            hetpart.partition(model, args=case.args)
    with pytest.raises(HetpartError, match="to_module needs a PyTorch model"):
        hetpart.partition(proto, hardware=EMULATED).to_module()
    (tmp_path / "net.pt2").write_text("no program")
    with pytest.raises(InvalidModelError, match="is no exported program"):
        hetpart.partition(tmp_path / "net.pt2")
    with pytest.raises(InvalidModelError, match="does not exist"):
        hetpart.partition(tmp_path / "none.pt2")
    with pytest.raises(InvalidModelError, match="no PyTorch model"):
        hetpart.export(proto)


def test_a_class_and_a_function_in_the_place_of_a_module_are_refused_as_that() -> None:
    case = mlp()
    models: dict[str, Any] = {"the class MLP": type(case.module), "of type function": lambda x: x}
    for what, model in models.items():
        with pytest.raises(InvalidOptionError, match=f"the model is {what}") as refused:
            hetpart.partition(model, args=case.args, hardware=EMULATED)
        assert "give an instance of torch.nn.Module" in refused.value.hint


def test_annotate_sweep_and_lint_take_modules(known: Models) -> None:
    case, exported = known("mlp")
    costs = hetpart.annotate(case.module, args=case.args, hardware=EMULATED)
    assert [op.seconds for op in costs.ops] == [op.seconds for op in hetpart.annotate(exported, hardware=EMULATED).ops]
    swept = hetpart.sweep(exported, hardware=EMULATED, points=2)
    assert len(swept.curves) == 1
    assert not [finding for finding in hetpart.lint(exported, select="ALL") if finding.severity == "error"]
