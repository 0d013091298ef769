# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false
"""What a model changes of itself while its loss is computed, against eager PyTorch; what no step keeps is refused."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.compiled import Running, capture, place

ROWS, WIDTH = 4, 3
BANK = torch.zeros(ROWS, WIDTH)


class Averages(nn.Module):
    """Buffers that are assigned: one is read after, two change places, one is what it was in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("odd", torch.ones(WIDTH))
        self.register_buffer("even", torch.full((WIDTH,), 2.0))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        made, before = self.layer(x), self.mean
        self.mean = 0.9 * self.mean + 0.1 * made.mean(0)
        self.odd, self.even = self.even, self.odd
        self.even = self.even.flip(0) * self.mean
        self.calls = self.calls + 1
        return (made - self.mean) * self.odd + before * self.calls


class Counting(nn.Module):
    """A rate that is a number of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rate = nn.Linear(WIDTH, WIDTH), 1.0

    def forward(self, x: Tensor) -> Tensor:
        self.rate *= 0.5
        return self.layer(x) * self.rate


class Growing(nn.Module):
    """A buffer that has a row more in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("seen", torch.zeros(1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = torch.cat((self.seen, x[:1]))
        return self.layer(x) - self.seen.mean(0)


class Noted(nn.Module):
    """A tensor that is an attribute, and no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.noted = nn.Linear(WIDTH, WIDTH), torch.zeros(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        self.noted.lerp_(made.mean(0).detach(), 0.1)
        return made - self.noted


def squared(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def remembered(model: nn.Module, x: Tensor) -> Tensor:
    BANK.lerp_(model(x).detach(), 0.1)
    return (model(x) - BANK).square().mean()


def scaled_in_place(model: nn.Module, x: Tensor) -> Tensor:
    return squared(model, x.mul_(2.0).add_(1.0))


def placed(model: nn.Module, loss: Callable[..., Tensor], *batch: Tensor, placement: str = "random:1") -> Any:
    made = capture(model, loss, optimizer=SGD(0.1), example_batch=batch)
    return place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement=placement)


def by_eager(model: nn.Module, loss: Callable[..., Tensor], batches: list[Tensor]) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses: list[float] = []
    for batch in batches:
        optimizer.zero_grad()
        made = loss(model, batch)
        made.backward()
        optimizer.step()
        for owner in model.modules():  # eager records what is assigned, and would differentiate it again
            for name, buffer in owner.named_buffers(recurse=False):
                setattr(owner, name, buffer.detach())
        losses.append(made.item())
    return losses


@pytest.mark.parametrize("placement", ["all-cpu", "random:1"])
@pytest.mark.parametrize("nested", [True, False])
def test_buffers_that_are_assigned_are_states(nested: bool, placement: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Averages()) if nested else Averages()
    batches = [torch.randn(ROWS, WIDTH) for _ in range(6)]
    step, eager = placed(copy.deepcopy(model), squared, batches[0], placement=placement), copy.deepcopy(model)
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(eager, squared, batches), rel=1e-5)
    step.sync_to(model)
    for name, buffer in eager.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], buffer)


def test_a_batch_may_be_written_to() -> None:
    """The caller's tensors stay as they are, unlike eager's."""
    torch.manual_seed(0)
    model, batches = nn.Linear(WIDTH, WIDTH), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    step = placed(copy.deepcopy(model), scaled_in_place, batches[0].clone())
    given = copy.deepcopy(batches)
    losses = [step(batch).item() for batch in given]
    assert all(torch.equal(batch, one) for batch, one in zip(batches, given, strict=True))
    assert losses == pytest.approx(by_eager(model, scaled_in_place, given), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "loss", "why"),
    [
        (Counting(), squared, r"the number 'rate' of 'the model' from 1\.0 to 0\.5"),
        (nn.Sequential(Counting()), squared, r"the number 'rate' of '0'"),
        (nn.Sequential(Growing()), squared, r"another tensor of the buffer 'seen': it was \[1, 3\]"),
        (Noted(), squared, "writes to .*, which is no buffer"),
        (nn.Linear(WIDTH, WIDTH), remembered, "writes to .*, which is no buffer"),
    ],
)
def test_what_no_step_can_keep_is_refused(model: nn.Module, loss: Callable[..., Tensor], why: str) -> None:
    with pytest.raises(InvalidModelError, match=why) as error:
        capture(model, loss, optimizer=SGD(0.1), example_batch=(torch.ones(ROWS, WIDTH),))
    assert "register_buffer" in error.value.hint or "form" in error.value.hint


class Leaving(nn.Module):
    """A layer, and something in an attribute that a call may go on from."""

    def __init__(self, begun: Any, going_on: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.going_on = nn.Linear(WIDTH, WIDTH), going_on
        if begun is not ABSENT:
            self.kept = begun

    def forward(self, x: Tensor) -> Tensor:
        return self.going_on(self, self.layer(x))


ABSENT = object()


def recurrent(model: Any, made: Tensor) -> Tensor:
    made = made + 0.5 * (torch.zeros(WIDTH) if model.kept is None else model.kept)
    model.kept = made.detach()
    return made


def fading(model: Any, made: Tensor) -> Tensor:
    model.kept = getattr(model, "kept", torch.ones(WIDTH)) * 0.5
    return made * model.kept


def toggled(model: Any, made: Tensor) -> Tensor:
    model.kept = not model.kept
    return made * (2.0 if model.kept else 1.0)


def damped(model: Any, made: Tensor) -> Tensor:
    model.kept = model.kept * 0.5
    return made * float(model.kept)


def listed(model: Any, made: Tensor) -> Tensor:
    model.kept.append(made.detach())
    return made + sum(model.kept)


def counted(model: Any, made: Tensor) -> Tensor:
    model.kept["calls"] = model.kept.get("calls", 0) + 1
    return made / model.kept["calls"]


def seen(model: Any, made: Tensor) -> Tensor:
    model.kept["shapes"].add(len(model.kept["shapes"]))
    return made / len(model.kept["shapes"])


def remembered(model: Any, made: Tensor) -> Tensor:
    model.kept = [*model.kept, made.detach()]
    return made + sum(model.kept)


def paired(model: Any, made: Tensor) -> Tensor:
    hidden = made if model.kept is None else made + model.kept[0]
    model.kept = (hidden.detach(), 1)
    return hidden


def named(model: Any, made: Tensor) -> Tensor:
    made = made * (2.0 if model.kept == "second" else 1.0)
    model.kept = "second"
    return made


def in_an_array(model: Any, made: Tensor) -> Tensor:
    model.kept[0] += 1
    return made * float(model.kept[0])


@dataclass
class State:
    calls: int = 0


@dataclass(slots=True)
class Placed:
    calls: int = 0


def without_training(model: Any, made: Tensor) -> Tensor:
    made = made * (2.0 if model.training else 1.0)
    model.eval()
    return made


def in_an_object(model: Any, made: Tensor) -> Tensor:
    model.kept.calls += 1
    return made * model.kept.calls


def recorded(model: Any, made: Tensor) -> Tensor:
    model.kept.clear()
    model.kept += [made, made * 2]
    return made + sum(model.kept)


def looked_at(model: Any, made: Tensor) -> Tensor:
    model.kept, model.seen = made, True
    return made


@pytest.mark.parametrize(
    ("begun", "going_on"),
    [
        (torch.zeros(ROWS, WIDTH), recurrent), (None, recurrent), (ABSENT, fading), (True, toggled),
        (np.float64(1.0), damped), ([], listed), (deque([torch.ones(WIDTH)], 3), listed), ({}, counted),
        ({"shapes": set()}, seen), ([], remembered), (None, paired), ("first", named), (np.zeros(2), in_an_array),
        (State(), in_an_object), (Placed(), in_an_object),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_a_pass_that_goes_on_from_what_the_last_one_left_is_refused(
    begun: Any, going_on: Callable[[Any, Tensor], Tensor], nested: bool
) -> None:
    """Eager PyTorch's second loss is another than that of the model as it was."""
    model, batch = Leaving(begun, going_on), torch.ones(ROWS, WIDTH)
    after, content = copy.deepcopy(model), str(begun)
    assert squared(after, batch) != squared(after, batch)
    held = nn.Sequential(nn.Identity(), model) if nested else model
    with pytest.raises(InvalidModelError, match=f"changes 'kept' of '{'1' if nested else 'the model'}'") as error:
        capture(held, squared, optimizer=SGD(0.1), example_batch=(batch,))
    assert "register_buffer" in error.value.hint
    assert vars(model).get("kept", ABSENT) is begun
    assert str(begun) == content


def test_a_pass_that_ends_its_own_training_is_refused() -> None:
    """And the model is left as it was."""
    model, batch = Leaving(None, without_training), torch.ones(ROWS, WIDTH)
    with pytest.raises(InvalidModelError, match="changes 'training' of 'the model'"):
        capture(model, squared, optimizer=SGD(0.1), example_batch=(batch,))
    assert model.training


def late(model: Any, made: Tensor) -> Tensor:
    model.kept += 1
    return made * (2.0 if model.kept > 100 else 1.0)


def late_by_a_list(model: Any, made: Tensor) -> Tensor:
    model.kept.append(made.detach())
    return made * (2.0 if len(model.kept) > 100 else 1.0)


def late_by_a_remainder(model: Any, made: Tensor) -> Tensor:
    model.kept["calls"] += 1
    return made * (1.0 if model.kept["calls"] % 100 else 2.0)


def late_by_the_last(model: Any, made: Tensor) -> Tensor:
    model.kept.append(1)
    return made * (2.0 if len(model.kept[-101:]) > 100 else 1.0)


def late_by_twice_as_many(model: Any, made: Tensor) -> Tensor:
    model.kept.append(1)
    return made * (2.0 if len(model.kept * 2) > 200 else 1.0)


def late_by_its_text(model: Any, made: Tensor) -> Tensor:
    model.kept.append(1)
    return made * (2.0 if len(f"{model.kept}") > 300 else 1.0)


def third(model: Any, made: Tensor) -> Tensor:
    made = made * (2.0 if model.seen else 1.0)
    model.seen, model.kept = model.kept, True
    return made


@pytest.mark.parametrize(
    ("begun", "going_on"),
    [(0, late), ([], late_by_a_list), ([], late_by_the_last), ([], late_by_twice_as_many), ([], late_by_its_text),
     (deque(maxlen=101), late_by_a_list), ({"calls": 0}, late_by_a_remainder),
     (False, third)],
)  # fmt: skip
def test_a_pass_that_goes_on_from_what_many_left_is_refused(
    begun: Any, going_on: Callable[[Any, Tensor], Tensor]
) -> None:
    model, batch = Leaving(begun, going_on), torch.ones(ROWS, WIDTH)
    model.seen = False
    after, content = copy.deepcopy(model), str(begun)
    losses = [squared(after, batch).item() for _ in range(102)]
    assert losses[0] == losses[1]
    assert len({*losses}) == 2
    with pytest.raises(InvalidModelError, match=r"changes (the number )?'kept' of 'the model'"):
        capture(model, squared, optimizer=SGD(0.1), example_batch=(batch,))
    assert str(model.kept) == content


def counted_alone(model: Any, made: Tensor) -> Tensor:
    model.kept["calls"] = model.kept["calls"] + 1
    return made


def last_two(model: Any, made: Tensor) -> Tensor:
    model.kept.append(made.detach())
    model.seen = [list(model.kept)[-1].shape, "seen"]
    return made


@pytest.mark.parametrize(
    ("begun", "going_on"), [({"calls": 0}, counted_alone), (deque(maxlen=2), last_two), (None, looked_at)]
)
def test_what_a_pass_keeps_and_nobody_asks_for_is_no_state(
    begun: Any, going_on: Callable[[Any, Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    model, batches = Leaving(begun, going_on), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    model.seen = 0
    eager = copy.deepcopy(model)
    step = placed(model, squared, batches[0])
    assert (str(model.kept), model.seen) == (str(begun), 0)
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(eager, squared, batches), rel=1e-5)


def test_a_list_that_a_pass_fills_anew_is_no_state() -> None:
    torch.manual_seed(0)
    model, batches = Leaving([torch.ones(1)], recorded), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    eager = copy.deepcopy(model)
    step = placed(model, squared, batches[0])
    assert str(model.kept) == "[tensor([1.])]"
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(eager, squared, batches), rel=1e-5)


@pytest.mark.parametrize("begun", [None, ABSENT, torch.zeros(1)])
def test_what_a_pass_only_shows_to_others_is_no_state(begun: Any) -> None:
    torch.manual_seed(0)
    model, batches = Leaving(begun, looked_at), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    step = placed(model, squared, batches[0])
    assert vars(model).get("kept", ABSENT) is begun
    eager = copy.deepcopy(model)
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(eager, squared, batches), rel=1e-5)


def test_a_parameter_that_the_forward_pass_writes_to_is_refused() -> None:
    table, ids = nn.Embedding(5, WIDTH, max_norm=1.0), torch.tensor([1, 2])
    with pytest.raises(InvalidModelError, match="writes to 'weight', which is no buffer, as max_norm"):
        capture(table, squared, optimizer=SGD(0.1), example_batch=(ids,))


@pytest.mark.parametrize(
    ("draw", "name"),
    [(random.random, "random"), (lambda: float(np.random.rand()), r"numpy\.random"), (random.gauss, "random")],
)
def test_a_loss_that_draws_from_what_python_shares_is_refused(draw: Callable[[], float], name: str) -> None:
    def noisy(model: nn.Module, x: Tensor) -> Tensor:
        return squared(model, x) * draw()

    with pytest.raises(InvalidModelError, match=f"the loss draws numbers from {name}, and") as error:
        capture(nn.Linear(WIDTH, WIDTH), noisy, optimizer=SGD(0.1), example_batch=(torch.ones(ROWS, WIDTH),))
    assert "in it as a tensor" in error.value.hint


@pytest.mark.parametrize("make", [random.Random, np.random.default_rng, np.random.RandomState])
def test_a_loss_that_draws_from_what_a_module_keeps_is_refused(make: Callable[[int], Any]) -> None:
    draw = "random_sample" if make is np.random.RandomState else "random"
    model = Leaving(make(0), lambda model, made: made * float(getattr(model.kept, draw)()))
    with pytest.raises(InvalidModelError, match="the loss draws numbers from 'kept' of 'the model', and"):
        capture(model, squared, optimizer=SGD(0.1), example_batch=(torch.ones(ROWS, WIDTH),))


def test_numbers_that_are_drawn_with_the_batch_are_those_of_every_call() -> None:
    torch.manual_seed(0)
    drawn, model = random.Random(0), nn.Linear(WIDTH, WIDTH)
    batches = [(torch.randn(ROWS, WIDTH), torch.tensor(drawn.random())) for _ in range(4)]
    step = placed(copy.deepcopy(model), scaled, *batches[0])
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), list[float]()
    for batch in batches:
        optimizer.zero_grad()
        loss = scaled(model, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert [step(*batch).item() for batch in batches] == pytest.approx(losses, rel=1e-5)


def scaled(model: nn.Module, x: Tensor, rate: Tensor) -> Tensor:
    return squared(model, x) * rate


class Shared(nn.Module):
    """Two layers, and what ``share`` makes of them."""

    def __init__(self, share: Callable[[Any], None]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        share(self)

    def forward(self, x: Tensor) -> Tensor:
        made = self.second(torch.tanh(self.first(x)))
        noted: Any = getattr(self, "noted", None)
        return made if noted is None else made + x @ noted


def parameters_over_one_memory(model: Any) -> None:
    model.second.weight.data = model.first.weight.data


def a_buffer_over_a_parameter(model: Any) -> None:
    model.register_buffer("noted", model.first.weight.data)


def an_attribute_over_a_parameter(model: Any) -> None:
    model.noted = model.first.weight.data


def frozen_over_trained(model: Any) -> None:
    model.second.weight = nn.Parameter(model.first.weight.detach(), requires_grad=False)


def a_part_of_a_parameter(model: Any) -> None:
    model.second.bias = nn.Parameter(model.first.weight.data[1])


@pytest.mark.parametrize(
    "share",
    [
        parameters_over_one_memory, a_buffer_over_a_parameter, an_attribute_over_a_parameter, frozen_over_trained,
        a_part_of_a_parameter,
    ],
)  # fmt: skip
def test_two_tensors_over_what_a_step_changes_are_refused(share: Callable[[Any], None]) -> None:
    """Eager PyTorch's losses are others than those of a model whose tensors are apart."""
    torch.manual_seed(0)
    model = Shared(share)
    apart = copy.deepcopy(model)
    for owner in (apart, *apart.children()):  # `deepcopy` keeps memory shared
        for name, tensor in {**dict(owner.named_buffers(recurse=False)), **dict(vars(owner))}.items():
            if isinstance(tensor, Tensor):
                setattr(owner, name, tensor.clone())
        for parameter in owner.parameters(recurse=False):
            parameter.data = parameter.data.clone()
    with pytest.raises(
        InvalidModelError, match=r"lies in the memory of 'first\.weight', which a step changes"
    ) as error:
        capture(model, squared, optimizer=SGD(0.1), example_batch=(torch.ones(ROWS, WIDTH),))
    assert "tie them as one tensor" in error.value.hint
    batches = [torch.randn(ROWS, WIDTH) for _ in range(4)]
    assert by_eager(model, squared, batches) != pytest.approx(by_eager(apart, squared, batches), rel=1e-4)


def columns_of_one_matrix(model: Any) -> None:
    both = torch.randn(WIDTH, 2 * WIDTH)
    model.first.weight.data, model.second.weight.data = both[:, ::2], both[:, 1::2]


def frozen_over_frozen(model: Any) -> None:
    parameters_over_one_memory(model)
    model.first.weight.requires_grad_(False)
    model.second.weight.requires_grad_(False)


@pytest.mark.parametrize("share", [columns_of_one_matrix, frozen_over_frozen])
def test_tensors_that_share_nothing_that_changes_are_trained(share: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    model, batches = Shared(share), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    step = placed(model, squared, batches[0])
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(model, squared, batches), rel=1e-5)


class Twice(nn.Module):
    """Batch normalisation under two names, of which the first or the second is called, or both."""

    def __init__(self, called: str) -> None:
        super().__init__()
        self.called = called
        self.base = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
        self.whole = nn.Sequential(self.base, nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        made = self.base(x) if self.called == "first" else self.whole(x)
        return made + self.base(x) if self.called == "both" else made


@pytest.mark.parametrize("called", ["first", "second", "both"])
def test_a_buffer_under_two_names_is_one_state(called: str) -> None:
    torch.manual_seed(0)
    model, batches = Twice(called), [torch.randn(ROWS, WIDTH) for _ in range(4)]
    eager, step = copy.deepcopy(model), placed(copy.deepcopy(model), squared, batches[0])
    assert [step(batch).item() for batch in batches] == pytest.approx(by_eager(eager, squared, batches), rel=1e-5)
    step.sync_to(model)
    for (name, held), (_, wanted) in zip(model.state_dict().items(), eager.state_dict().items(), strict=True):
        torch.testing.assert_close(held, wanted, rtol=1e-5, atol=1e-6, msg=name)
