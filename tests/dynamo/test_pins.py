"""Pins of a model that is compiled: patterns in options, marks on modules and around code. None is passed over."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart as public
from hetpart.dynamo import ledger
from hetpart.dynamo.backend import hetpart
from tests.pytorch.models import TwoGraphs, mlp
from tests.pytorch.test_partition import assert_equal

Plans = list[public.PartitionedModel]
ON_CUDA = {"hardware": "emulated", "emulate": True, "placement": "all-accelerator"}


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def plans() -> Plans:
    return []


def compiled(code: Any, plans: Plans, **options: Any) -> Any:
    return torch.compile(code, backend=hetpart, options={**ON_CUDA, "on_plan": plans.append, **options})


def devices(planned: public.PartitionedModel) -> dict[str, set[str]]:
    """By module, where its ops are."""
    found: dict[str, set[str]] = {}
    for decision in planned.plan.decisions:
        found.setdefault(decision.scope, set()).add(decision.device)
    return found


def test_patterns_are_for_the_graphs_that_they_match(plans: Plans) -> None:
    model, x = TwoGraphs().eval(), torch.ones(3, 64)
    run = compiled(model, plans, pin={"second.fc1": "cpu"}, colocate="first.fc1,second.fc1")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert_equal(run(x), model(x))
    first, second = plans
    assert devices(second)["second.fc1"] == {"cpu"}
    assert devices(first)["first.fc1"] == {"cuda:0"}
    assert "the pin 'second.fc1=cpu' matches no op of this graph" in first.plan.notes
    assert not any("pin" in note for note in second.plan.notes)


def test_patterns_that_match_no_graph_are_told_when_the_model_is_called_again(plans: Plans) -> None:
    model, x = TwoGraphs().eval(), torch.ones(3, 64)
    run = compiled(model, plans, pin=["second.fc9=cpu", "first.fc1=cpu"], colocate="nowhere")
    with torch.no_grad():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(x)
        with pytest.warns(public.HetpartWarning) as told:
            assert_equal(run(x), model(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(x)
    pin, together = (str(one.message) for one in told)
    assert "pin 'second.fc9=cpu' matches no op of any of the 2 graphs" in pin
    assert "did you mean 'second.fc2', 'second.fc1'" in pin
    assert "colocation 'nowhere'" in together


def test_layers_that_share_a_graph_are_no_second_call(plans: Plans) -> None:
    """Nor is code without weights that a model calls for every layer."""

    def shared(x: Tensor) -> Tensor:
        return torch.sin(x)

    layers, x = [nn.Linear(8, 8) for _ in range(3)], torch.ones(2, 8)
    options = {**ON_CUDA, "on_plan": plans.append, "pin": "nowhere=cpu"}
    parts = [torch.compile(layer, backend=hetpart, options=options) for layer in layers]
    between = torch.compile(shared, backend=hetpart, options=options)
    with torch.no_grad():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for part in parts:
                x = between(part(x))
        with pytest.warns(public.HetpartWarning, match="2 graphs"):
            parts[0](x)


def test_a_model_that_is_called_once_is_told_when_it_goes(plans: Plans) -> None:
    held = [compiled(torch.sin, plans, pin="nowhere=cpu")]
    with torch.no_grad():
        held[0](torch.ones(3))

    def let_go() -> None:
        held.clear()
        plans.clear()
        torch._dynamo.reset()
        gc.collect()

    with pytest.warns(public.HetpartWarning, match="pin 'nowhere=cpu' matches no op of the graph"):
        let_go()


def test_options_go_with_their_models() -> None:
    """What they hold would stay for ever: here something that can be told to be gone."""

    class Keeps:
        def __call__(self, planned: object) -> None: ...

    kept = Keeps()
    gone, before = weakref.ref(kept), len(ledger._ledgers)
    run = torch.compile(torch.sin, backend=hetpart, options={**ON_CUDA, "on_plan": kept})
    with torch.no_grad():
        run(torch.ones(3))
    assert len(ledger._ledgers) == before + 1
    del run, kept
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None
    assert len(ledger._ledgers) <= before


def test_patterns_speak_of_modules_by_their_paths(plans: Plans) -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).eval(), torch.ones(2, 64)
    with torch.no_grad(), public.pin(model[0], torch.device("cuda", 0)):
        assert_equal(compiled(model, plans, pin="1=cpu")(x), model(x))
    assert devices(plans[0]) == {"0": {"cuda:0"}, "1": {"cpu"}}


class Marked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


def test_marks_on_modules_are_read(plans: Plans) -> None:
    model, x = Marked().eval(), torch.randn(3, 64)
    with public.pin(model.fc1, "cpu"), public.pin(model.act, "cpu"), torch.no_grad():
        assert_equal(compiled(model, plans)(x), model(x))
    assert devices(plans[0]) == {"fc1": {"cpu"}, "act": {"cpu"}, "fc2": {"cuda:0"}}
    torch._dynamo.reset()
    with public.pin(model, "cpu"), public.pin(model.fc1, "cuda"), torch.no_grad():
        compiled(lambda x: model(x), plans)(x)
    assert devices(plans[1]) == {"model.fc1": {"cuda:0"}, "model.act": {"cpu"}, "model.fc2": {"cpu"}}


def test_layers_that_share_a_graph_have_marks_of_their_own(plans: Plans) -> None:
    layers, x = [nn.Linear(64, 64) for _ in range(3)], torch.randn(2, 64)
    with public.pin(layers[1], "cpu"), torch.no_grad():
        for layer in layers:
            assert_equal(compiled(layer, plans)(x), layer(x))
    assert [devices(planned)[""] for planned in plans] == [{"cuda:0"}, {"cpu"}, {"cuda:0"}]


@public.pin("cpu")
def doubled(x: Tensor) -> Tensor:
    return x * 2


@public.pin("cpu")
class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Around(nn.Module):
    """Code that is pinned in every way there is."""

    def __init__(self) -> None:
        super().__init__()
        self.plus = Plus()

    def forward(self, x: Tensor) -> Tensor:
        with public.pin("cpu"):
            x = torch.sin(x)
        return torch.relu(self.plus(doubled(x)))


def test_marks_around_code_are_read(plans: Plans) -> None:
    model, x = Around(), torch.randn(3, 64)
    with torch.no_grad():
        assert_equal(compiled(model, plans)(x), model(x))
    (planned,) = plans
    found = {decision.op_type: decision.device for decision in planned.plan.decisions}
    assert found == {"Sin": "cpu", "Mul": "cpu", "Add": "cpu", "Relu": "cuda:0"}


class Broken(nn.Module):
    """Code that is pinned, with a break in it; what it calls is whole."""

    def __init__(self) -> None:
        super().__init__()
        self.plus = Plus()

    def inside(self, x: Tensor) -> Tensor:
        return torch.sin(x)

    def forward(self, x: Tensor) -> Tensor:
        with public.pin("cpu"):
            x = self.inside(x)
            torch._dynamo.graph_break()
            x = self.inside(x)
        return torch.relu(x)


def test_a_break_within_a_mark_is_told_and_the_mark_holds_in_what_is_called(plans: Plans) -> None:
    model, x = Broken(), torch.randn(3, 64)
    run = compiled(model, plans)
    with torch.no_grad(), pytest.warns(public.HetpartWarning, match="breaks the graph") as told:
        assert_equal(run(x), model(x))
    assert {warning.filename for warning in told} == {__file__}
    assert [devices(planned) for planned in plans] == [{"": {"cpu"}}]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        model(x)  # nobody compiles it
        torch.compile(model, backend="eager")(x)


def test_a_mark_around_a_call_is_of_what_is_compiled_in_it(plans: Plans) -> None:
    model, x = Around(), torch.randn(3, 64)
    with torch.no_grad(), public.pin("cpu"):
        assert_equal(compiled(model, plans)(x), model(x))
    assert [devices(planned) for planned in plans] == [{"": {"cpu"}, "plus": {"cpu"}}]


def test_a_break_in_a_marked_function_leaves_the_mark(plans: Plans) -> None:
    @public.pin("cpu")
    def marked(x: Tensor) -> Tensor:
        x = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(x)

    def whole(x: Tensor) -> Tensor:
        return torch.relu(marked(torch.tanh(x)))

    x = torch.randn(3, 64)
    with torch.no_grad():
        assert_equal(compiled(whole, plans)(x), whole(x))
    found = {decision.op_type: decision.device for planned in plans for decision in planned.plan.decisions}
    assert found == {"Tanh": "cuda:0", "Sin": "cpu", "Cos": "cpu", "Relu": "cuda:0"}


def test_a_mark_stays_where_a_larger_batch_is_planned_for(plans: Plans) -> None:
    case = mlp()
    options = {**ON_CUDA, "placement": "fill-in-order", "budget": 100_000, "on_plan": plans.append}
    run = torch.compile(case.module, backend=hetpart, options=options, dynamic=True)
    with public.pin(case.module.get_submodule("fc2"), "cpu"), torch.no_grad():
        for batch in (4, 3000):
            x = torch.randn(batch, 64)
            assert_equal(run(x), case.module(x))
    assert len(plans) == 2
    assert all(devices(planned)["fc2"] == {"cpu"} for planned in plans)
