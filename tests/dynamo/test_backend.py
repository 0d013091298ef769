"""The backend's contract: its name, its options, its budget, whose weights it runs with, what it refuses."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import tomllib
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

import hetpart as public
from hetpart.dynamo.backend import hetpart
from hetpart.errors import HetpartError, InvalidOptionError
from tests.pytorch.models import MLP, TwoGraphs, mlp
from tests.pytorch.test_partition import assert_equal
from tests.test_public_api import ROOT

EMULATED = {"hardware": "emulated", "emulate": True}


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(code: Any, **options: Any) -> Any:
    return torch.compile(code, backend=hetpart, options={**EMULATED, **options})


def refused(code: Any, *args: Any, **how: Any) -> HetpartError:
    """What the backend says, out of what Dynamo wraps it in."""
    with pytest.raises(BackendCompilerFailed) as failed, torch.no_grad():
        torch.compile(code, backend=hetpart, **how)(*args)
    assert isinstance(failed.value.inner_exception, HetpartError)
    assert failed.value.inner_exception.message in str(failed.value)
    return failed.value.inner_exception


def test_the_name_is_found_where_the_package_is_installed(tmp_path: Path) -> None:
    """Installed is what has the entry points of pyproject.toml beside it."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path / "hetpart-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hetpart\nVersion: 9\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in listed.items())
        for group, listed in points.items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import torch
assert "hetpart" in torch._dynamo.list_backends()
linear = torch.nn.Linear(4, 4)
run = torch.compile(linear, backend="hetpart", options={EMULATED!r})
x = torch.ones(2, 4)
with torch.no_grad():
    torch.testing.assert_close(run(x), linear(x))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True)


def test_an_option_that_is_unknown_is_named() -> None:
    error = refused(torch.sin, torch.ones(3), options={"bugdet": "1GB"})
    assert isinstance(error, InvalidOptionError)
    assert "has no option 'bugdet'" in error.message
    assert "did you mean 'budget'" in error.hint
    assert "on_plan cannot be 3" in refused(torch.sin, torch.ones(3), options={"on_plan": 3}).message
    assert "'reduce-overhead'" in refused(torch.sin, torch.ones(3), mode="reduce-overhead").message


@pytest.mark.parametrize(
    ("name", "wrong"), [("emulate", "yes"), ("stream", 1), ("threads", "two"), ("pin", 3), ("emulate_link", True)]
)
def test_an_option_of_the_wrong_kind_is_refused_before_a_plan_is_made(name: str, wrong: Any) -> None:
    plans: list[Any] = []
    error = refused(torch.sin, torch.ones(3), options={**EMULATED, "on_plan": plans.append, name: wrong})
    assert isinstance(error, InvalidOptionError)
    assert error.message.startswith(f"{name} cannot be ")
    assert error.hint
    assert not plans


def test_gradients_are_refused() -> None:
    with pytest.raises(BackendCompilerFailed, match="is for inference") as failed:
        compiled(MLP())(torch.ones(2, 64))
    assert "torch.no_grad()" in str(failed.value)


def test_an_operator_without_translation_is_run_by_pytorch() -> None:
    def odd(x: Tensor) -> Tensor:
        return torch.linalg.eigvalsh(x @ x.T) + 1

    x = torch.arange(9.0).reshape(3, 3)
    with torch.no_grad():
        assert_equal(compiled(odd)(x), odd(x))


def test_a_budget_is_shared_by_all_graphs_of_a_model() -> None:
    plans: list[public.PartitionedModel] = []
    model, x = TwoGraphs().eval(), torch.ones(3, 64)
    budget = 120_000
    with torch.no_grad():
        run = compiled(model, budget=budget, placement="fill-in-order", on_plan=plans.append)
        assert_equal(run(x), model(x))
    accelerators = [plan.plan.devices[1] for plan in plans]
    assert len(accelerators) == 2
    assert accelerators[0].budget_bytes == budget
    assert accelerators[1].budget_bytes == budget - accelerators[0].peak_bytes
    assert accelerators[0].peak_bytes > 0


def test_layers_that_share_a_graph_have_weights_of_their_own() -> None:
    torch.manual_seed(0)
    layers, x = [nn.Linear(64, 64) for _ in range(3)], torch.randn(2, 64)
    runs = [compiled(layer) for layer in layers]
    with torch.no_grad():
        for layer, run in zip(layers, runs, strict=True):
            assert_equal(run(x), layer(x))
            assert_equal(run(x), layer(x))


@pytest.mark.parametrize("change", ["in place", "data", "other storage", "state dict"])
def test_weights_that_change_are_seen(change: str) -> None:
    case = mlp()
    run = compiled(case.module, placement="random:1")
    weight = case.module.get_parameter("fc2.weight")
    with torch.no_grad():
        assert_equal(run(*case.args), case.result())
        before = case.result()
        match change:
            case "in place":
                weight.mul_(2)
            case "data":
                weight.data.mul_(2)
            case "other storage":
                weight.data = torch.ones_like(weight)
            case _:
                case.module.load_state_dict({name: value * 2 for name, value in case.module.state_dict().items()})
        assert not torch.allclose(case.result(), before)
        assert_equal(run(*case.args), case.result())


def test_weights_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    case = mlp()
    found: dict[str, int] = {}
    from hetpart.runtime import lent

    over = lent._over

    def noted(name: str, tensor: Any) -> Any:
        value = over(name, tensor)
        found[name] = value.data_ptr()
        return value

    monkeypatch.setattr(lent, "_over", noted)
    with torch.no_grad():
        compiled(case.module)(*case.args)
    assert found == {name: parameter.data_ptr() for name, parameter in case.module.named_parameters()}


class Eighths(nn.Module):
    """A checkpoint in float8, as its users compute with it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(4, 4).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_weights_in_float8_are_read_where_they_lie(dtype: torch.dtype) -> None:
    model, x = Eighths(dtype), torch.randn(2, 4)
    run = compiled(model, emulate=True, placement="random:3")
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        model.weight.copy_(torch.randn(4, 4).to(dtype))
        torch.testing.assert_close(run(x), model(x))


def test_a_plan_goes_with_its_model() -> None:
    case = mlp()
    plans: list[public.PartitionedModel] = []
    run = compiled(case.module, on_plan=plans.append)
    with torch.no_grad():
        run(*case.args)
    gone = weakref.ref(case.module.get_parameter("fc1.weight"))
    del run, case
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None


def test_a_batch_of_any_size_has_one_plan() -> None:
    plans: list[public.PartitionedModel] = []
    module = MLP().eval()
    run = torch.compile(module, backend=hetpart, options={**EMULATED, "on_plan": plans.append}, dynamic=True)
    with torch.no_grad():
        for batch in (8, 2, 3, 5, 100):
            x = torch.randn(batch, 64)
            assert_equal(run(x), module(x))
    assert len(plans) == 1


def test_a_batch_that_the_budget_does_not_hold_is_planned_anew() -> None:
    plans: list[public.PartitionedModel] = []
    module = MLP().eval()
    options = {**EMULATED, "on_plan": plans.append, "placement": "fill-in-order", "budget": 100_000}
    run = torch.compile(module, backend=hetpart, options=options, dynamic=True)
    with torch.no_grad():
        for batch in (4, 3000):
            x = torch.randn(batch, 64)
            assert_equal(run(x), module(x))
    first, second = (plan.plan.devices[1] for plan in plans)
    assert first.weight_bytes > second.weight_bytes
    assert second.peak_bytes <= 100_000


def test_reports_and_pins_speak_the_users_names() -> None:
    plans: list[public.PartitionedModel] = []
    case = mlp()
    run = compiled(case.module, on_plan=plans.append, pin={"fc1.*": "cpu", "fc2.*": "cuda"})
    with torch.no_grad():
        assert_equal(run(*case.args), case.result())
    (planned,) = plans
    devices = {decision.scope: decision.device for decision in planned.plan.decisions}
    assert devices["fc1"] == "cpu"
    assert devices["fc2"] == "cuda:0"
    assert {residency.weight for residency in planned.plan.residencies} >= {"fc1.bias", "fc2.bias"}
    assert "fc1" in planned.report()


class Adversarial(nn.Module):
    """Modules whose names are what Dynamo calls frames and modules."""

    def __init__(self) -> None:
        super().__init__()
        self.G, self.fn = MLP(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(self.G(x))


class Unusual(nn.Module):
    """Code that does not call its module ``self``."""

    def __init__(this) -> None:  # noqa: N805
        super().__init__()
        this.enc, this.scale = nn.Sequential(nn.Linear(64, 64)), nn.Parameter(torch.ones(64))

    def forward(this, x: Tensor) -> Tensor:  # noqa: N805
        return this.enc(x * this.scale)

    @staticmethod
    def compiled(x: Tensor, plans: list[public.PartitionedModel]) -> None:
        """In place."""
        module = Unusual()
        module.compile(backend=hetpart, options={**EMULATED, "on_plan": plans.append})
        module(x)


def test_a_module_has_the_name_that_the_user_gave() -> None:
    plans: list[public.PartitionedModel] = []
    x = torch.ones(2, 64)
    with torch.no_grad():
        compiled(Adversarial().eval(), on_plan=plans.append)(x)
        compiled(nn.Linear(64, 4), on_plan=plans.append)(x)
        compiled(nn.Sequential(Unusual(), nn.Linear(64, 4)), on_plan=plans.append)(x)
        Unusual.compiled(x, plans)
    first, second, third, fourth = ({residency.weight for residency in planned.plan.residencies} for planned in plans)
    assert first >= {"G.fc1.bias", "fn.fc1.bias"}
    assert "bias" in second
    assert third >= {"0.enc.0.bias", "0.scale", "1.bias"}
    assert fourth >= {"enc.0.bias", "scale"}
    assert {decision.scope for decision in plans[0].plan.decisions} >= {"G.fc1", "fn.fc1"}


def test_tensors_are_shared_in_and_out() -> None:
    """What comes in is read where it lies: a result of it is right after it was changed there."""
    x = torch.zeros(2, 64)
    module = MLP().eval()
    run = compiled(module)
    with torch.no_grad():
        first = run(x)
        kept = first.clone()
        x.fill_(1)
        assert_equal(run(x), module(x))
        assert_equal(first, kept)


def drawn(x: Tensor) -> tuple[Tensor, float]:
    drawn = random.uniform(0, 5)
    return x * drawn, drawn


def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_of_python_arrive_as_they_were_traced(dtype: torch.dtype) -> None:
    """Dynamo gives the graph in float64 what it traced in float32."""
    x = torch.arange(6, dtype=dtype)
    run = compiled(drawn)
    scale = torch.compile(scaled, backend=hetpart, options=EMULATED, dynamic=True)
    for seed in range(3):
        random.seed(seed)
        made = run(x)
        random.seed(seed)
        assert_equal(made, drawn(x))
        assert_equal(scale(x, seed + 0.3), scaled(x, seed + 0.3))
