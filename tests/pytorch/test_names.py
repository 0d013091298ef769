"""What plans and reports call by the user's names: modules, FX nodes and lines."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

import hetpart
from hetpart.errors import InvalidOptionError
from hetpart.report.page import Evidence, render
from tests.pytorch.conftest import Models
from tests.pytorch.models import MLP, mlp

EMULATED = "emulated"


def devices(planned: hetpart.PartitionedModel) -> dict[str, set[str]]:
    """The devices of the ops of every module."""
    found: dict[str, set[str]] = {}
    for decision in planned.plan.decisions:
        found.setdefault(decision.scope, set()).add(decision.device)
    return found


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_every_op_has_its_fx_node_and_line_and_a_module_that_exists(known: Models, name: str) -> None:
    case, exported = known(name)
    modules = {path for path, _ in case.module.named_modules()}
    nodes = {node.name for node in exported.program.graph.nodes}
    for op in hetpart.load(exported).ops:
        assert op.scope in modules
        assert op.source is not None
        assert op.source.node in nodes
        assert "site-packages/transformers" in op.source.place


def test_the_line_of_an_op_is_the_users(known: Models) -> None:
    _, exported = known("mlp")
    lines, first = inspect.getsourcelines(MLP.forward)
    (added,) = (op for op in hetpart.load(exported).ops if op.source and op.source.target.startswith("aten.add"))
    assert added.source is not None
    assert added.source.place == f"{inspect.getsourcefile(MLP)}:{first + len(lines) - 1} in forward"


def test_reports_say_the_line_of_an_op(known: Models) -> None:
    planned = known.planned("mlp", "all-cpu")
    lines, first = inspect.getsourcelines(MLP.forward)
    added = f"{inspect.getsourcefile(MLP)}:{first + len(lines) - 1} in forward"
    assert added in {decision.line for decision in planned.plan.decisions}
    said = Path(added.removesuffix(" in forward")).name
    assert f" at {said}" in " ".join(planned.report().split())
    assert said in render(Evidence(planned.plan))


def test_a_branch_has_the_line_that_the_user_wrote_not_the_one_that_pytorch_wrote_from_it() -> None:
    class Branched(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    (branch,) = (op for op in hetpart.load(Branched(), args=(torch.ones(3),)).ops if op.op_type == "If")
    assert branch.source is not None
    assert branch.source.place == f"{__file__}:{Branched.forward.__code__.co_firstlineno + 1} in forward"


def test_a_module_that_is_called_twice_has_one_name(known: Models) -> None:
    _, exported = known("shared")
    scopes = {op.scope for op in hetpart.load(exported).ops}
    assert scopes <= {"", "embed", "step", "head"}
    assert "step" in scopes


def test_pins_and_explain_take_modules_and_fx_nodes(known: Models) -> None:
    _, exported = known("bert")
    planned = hetpart.partition(
        exported, hardware=EMULATED, pin={"encoder.layer.0.*": "cpu", "encoder.layer.1.*": "cuda"}
    )
    for scope, found in devices(planned).items():
        if scope.startswith("encoder.layer."):
            assert found == {"cpu" if scope.startswith("encoder.layer.0") else "cuda:0"}
    tanh = next(op for op in planned.graph.ops if op.op_type == "Tanh")
    assert tanh.source is not None
    moved = hetpart.partition(exported, hardware=EMULATED, pin=f"node:{tanh.source.node}=cuda")
    assert next(d.device for d in moved.plan.decisions if d.op == tanh.name) == "cuda:0"
    report = hetpart.explain(exported, tanh.source.node, hardware=EMULATED).report(width=200)
    assert "pooler" in report
    assert "aten.tanh.default" in report
    assert "modeling_bert.py" in report


def test_a_pin_on_a_module_object_holds_until_it_is_removed() -> None:
    case = mlp()
    module = case.module
    assert isinstance(module, MLP)

    def planned() -> dict[str, set[str]]:
        return devices(hetpart.partition(module, args=case.args, hardware=EMULATED, placement="random:1"))

    with hetpart.pin(module.fc1, "cuda"), hetpart.pin(module, "cpu"):
        assert planned() == {"": {"cpu"}, "fc1": {"cuda:0"}, "act": {"cpu"}, "fc2": {"cpu"}}
    kept = hetpart.pin(module, "cuda")
    assert set.union(*planned().values()) == {"cuda:0"}
    kept.remove()
    assert set.union(*planned().values()) == {"cpu", "cuda:0"}
    first, second = hetpart.pin(module, "cpu"), hetpart.pin(module, "cuda")
    first.remove()
    assert set.union(*planned().values()) == {"cuda:0"}
    second.remove()
    second.remove()
    assert set.union(*planned().values()) == {"cpu", "cuda:0"}


@pytest.mark.parametrize("capture", [hetpart.export, lambda module, args: torch.export.export(module, args)])
def test_a_pin_on_a_module_object_holds_for_what_was_exported_before(capture: Any) -> None:
    case = mlp()
    module: Any = case.module
    captured = capture(module, args=case.args)
    with hetpart.pin(module.fc1, "cuda"), hetpart.pin(module, "cpu"):
        found = devices(hetpart.partition(captured, hardware=EMULATED, placement="random:1"))
        kept = hetpart.export(module, args=case.args)
    assert found == {"": {"cpu"}, "fc1": {"cuda:0"}, "act": {"cpu"}, "fc2": {"cpu"}}
    assert devices(hetpart.partition(kept, hardware=EMULATED, placement="random:1")) == found
    assert set.union(
        *devices(hetpart.partition(captured, hardware=EMULATED, placement="all-accelerator")).values()
    ) == {"cuda:0"}


def test_a_pin_that_an_exported_program_cannot_follow_is_said() -> None:
    case = mlp()
    module: Any = case.module
    program = torch.export.export(module, case.args)
    with (
        hetpart.pin(module.act, "cuda"),
        pytest.warns(hetpart.HetpartWarning, match=r"not followed.*\n.*'act\.\*=cuda"),
    ):
        hetpart.partition(program, hardware=EMULATED)


class Counting(MLP):
    def forward(self, x: torch.Tensor) -> Any:
        x.add_(1)
        with hetpart.pin("cuda"):
            x = torch.sin(x)
        return super().forward(x), x.shape[0], 3


def test_a_pin_on_a_module_that_is_not_called_is_said() -> None:
    """Its weights are, as those of the shared embedding of a T5."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.called = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.called.weight = self.shared.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.called(x)

    module = Tied()
    with hetpart.pin(module.shared, "cuda:0"), pytest.warns(hetpart.HetpartWarning, match=r"of 'shared' to cuda:0"):
        hetpart.partition(module, args=(torch.ones(2, 4),), hardware="emulated")
    with hetpart.pin(module.called, "cuda:0"):  # a warning would be an error
        hetpart.partition(module, args=(torch.ones(2, 4),), hardware="emulated")


def test_modules_and_pins_hold_where_a_number_is_returned_and_an_argument_changed() -> None:
    module, x = Counting(8).eval(), torch.linspace(0, 1, 24).reshape(3, 8)
    with hetpart.pin(module.fc2, "cuda"):
        planned = hetpart.partition(
            module, args=(x.clone(),), hardware=EMULATED, placement="all-cpu", pin={"fc1.*": "cuda"}
        )
    found = devices(planned)
    assert found == {"": {"cpu", "cuda:0"}, "fc1": {"cuda:0"}, "act": {"cpu"}, "fc2": {"cuda:0"}}
    assert {each.device for each in planned.plan.decisions if each.op_type == "Sin"} == {"cuda:0"}
    given, expected = x.clone(), x.clone()
    made, wanted = planned.to_module(emulate=True)(given), module(expected)
    assert made[1:] == wanted[1:]
    torch.testing.assert_close(made[0], wanted[0].detach())
    torch.testing.assert_close(given, expected)


class Pinned(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with hetpart.pin("cuda"):
            x = torch.sin(x)
        return self.later(x) * 2

    @hetpart.pin("cuda:0")
    def later(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x)


@hetpart.pin("cpu")
class Whole(Pinned):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


@pytest.mark.parametrize(("kind", "added"), [(Pinned, 0), (Whole, 1)])
def test_a_pin_around_code_is_of_the_ops_in_it(kind: type[torch.nn.Module], added: int) -> None:
    x = torch.linspace(0, 1, 5)
    planned = hetpart.partition(kind(), args=(x,), hardware=EMULATED, pin={"op:Mul": "cpu"})
    found = {decision.op_type: decision.device for decision in planned.plan.decisions}
    wanted = {"Sin": "cuda:0", "Cos": "cuda:0", "Mul": "cpu"} | ({"Add": "cpu"} if added else {})
    assert found == wanted
    torch.testing.assert_close(planned.to_module(emulate=True)(x), torch.cos(torch.sin(x)) * 2 + added)


def test_pins_that_mean_nothing_or_contradict_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="3 is no device"):
        hetpart.pin(mlp().module, 3)  # pyright: ignore
    with pytest.raises(InvalidOptionError, match="is no module"):
        hetpart.pin("cpu")(dict)
    case = mlp()
    no_module: Any = "fc1"
    with pytest.raises(InvalidOptionError, match="pin cannot be given 'fc1'"):
        hetpart.pin(no_module, "cpu")
    for no_module in (case.module.forward, case.args[0]):
        with pytest.raises(InvalidOptionError, match=f"a value of type {type(no_module).__name__}, 'cpu'\n"):
            hetpart.pin(no_module, "cpu")
    with pytest.raises(InvalidOptionError, match="no device"):
        hetpart.pin("gpu nine")
    with hetpart.pin(case.module, "cpu"), pytest.raises(InvalidOptionError, match=r"hetpart\.pin puts"):
        hetpart.partition(case.module, args=case.args, hardware=EMULATED, pin="fc1.*=cuda")
