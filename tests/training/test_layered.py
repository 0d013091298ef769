# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Dropout between recurrent layers of one module: PyTorch's decomposition leaves it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.capture import LossFunction
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.step import Step

KINDS: dict[str, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}
STEPS, BATCH, WIDTH = 2, 9, 6
CALLS = 100


class Layers(nn.Module):
    """A module of several layers, on sequences that may be packed."""

    def __init__(self, layers: nn.RNNBase, *, packed: bool) -> None:
        super().__init__()
        self.layers, self.packed = layers, packed

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        if not self.packed:
            return self.layers(x)[0]
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(self.layers(packed)[0], total_length=x.shape[0])[0]


def squared(model: nn.Module, *batch: Tensor) -> Tensor:
    return model(*batch).square().mean()


def built(kind: str, *, packed: bool, **options: Any) -> Layers:
    torch.manual_seed(0)
    return Layers(KINDS[kind](WIDTH, WIDTH, num_layers=2, **options), packed=packed)


def sequences() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(STEPS, BATCH, WIDTH), torch.tensor([2, 1, 2] * 3)


def captured(model: nn.Module, rate: float = 0.0, loss: LossFunction = squared) -> CapturedStep:
    return capture(model, loss, optimizer=SGD(rate), example_batch=sequences())


def placed(made: CapturedStep, seed: int = 0) -> Step:
    running = Running(emulate=True, threads=1)
    return place(made, running=running, hardware="emulated", placement="random:1", seed=seed)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_that_drop_out_lose_as_eager_pytorch_on_the_mean(kind: str, packed: bool) -> None:
    model, batch = built(kind, packed=packed, dropout=0.9, bidirectional=True), sequences()
    step = placed(captured(model))
    torch.manual_seed(2)
    found = torch.tensor([step(*batch).item() for _ in range(CALLS)])
    wanted = torch.tensor([squared(model, *batch).item() for _ in range(CALLS)])
    without = squared(model.eval(), *batch).item()
    deviation = wanted.std().item() / CALLS**0.5
    assert found.mean().item() == pytest.approx(wanted.mean().item(), abs=6 * deviation)
    assert abs(found.mean().item() - without) > 12 * deviation
    assert found.std().item() == pytest.approx(wanted.std().item(), rel=0.3)


class Passing(nn.RNN):
    """Two layers of ReLUs that hand on what they are given, were it not for what is dropped between them."""

    def __init__(self, width: int, p: float) -> None:
        super().__init__(width, width, 2, nonlinearity="relu", bias=False, dropout=p)
        for layer in range(2):
            nn.init.eye_(getattr(self, f"weight_ih_l{layer}"))
            nn.init.zeros_(getattr(self, f"weight_hh_l{layer}"))


@pytest.mark.parametrize("packed", [False, True])
def test_the_share_that_is_dropped_is_p_and_the_rest_grows(packed: bool) -> None:
    width, p = 700, 0.25
    batch = torch.ones(STEPS, BATCH, width), torch.full((BATCH,), STEPS)
    model = Layers(Passing(width, p), packed=packed)
    model.register_buffer("share", torch.zeros(()))

    def largest(model: Any, *batch: Tensor) -> Tensor:
        made = model(*batch)
        model.share.copy_((made == 0).float().mean())
        return made.max()

    made = capture(model, largest, optimizer=SGD(0.0), example_batch=batch)
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu")
    assert step(*batch).item() == pytest.approx(1 / (1 - p))
    assert step.state_dict()["tensors"]["share"].item() == pytest.approx(p, abs=0.02)  # of 12,600 elements


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_dropped_is_the_seeds_and_goes_on_from_a_checkpoint(packed: bool) -> None:
    batch, made = sequences(), captured(built("lstm", packed=packed, dropout=0.5), 0.1)
    first = placed(made)
    losses = [first(*batch).item() for _ in range(3)]
    kept = first.state_dict()
    losses += [first(*batch).item() for _ in range(3)]
    second = placed(made, seed=99)
    second.load_state_dict(kept)
    assert [second(*batch).item() for _ in range(3)] == losses[3:]
    assert len(set(losses)) == 6


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_those_of_what_was_kept(packed: bool) -> None:
    """With weights at which nothing is lost but by dropout, and every element of a row weighs alike."""
    width = 8
    batch = torch.ones(1, 1, width), torch.tensor([1])
    model = Layers(Passing(width, 0.5), packed=packed)
    made = capture(model, lambda model, *batch: model(*batch).sum(), optimizer=SGD(1.0), example_batch=batch)
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu", seed=7)
    loss = step(*batch).item()
    moved = torch.eye(width) - step.state_dict()["tensors"]["layers.weight_ih_l0"]
    assert set(moved[:, 0].tolist()) == {0.0, 2.0}
    assert moved[:, 0].sum().item() == pytest.approx(loss)


def test_layers_called_in_a_way_that_is_not_taken_apart_are_refused() -> None:
    def by_keywords(model: Any, x: Tensor, lengths: Tensor) -> Tensor:
        del lengths
        made = torch.gru(
            x, torch.zeros(2, BATCH, WIDTH), params=model.layers._flat_weights, has_biases=True, num_layers=2,
            dropout=0.5, train=True, bidirectional=False, batch_first=False,
        )  # fmt: skip
        return made[0].square().mean()

    with pytest.raises(InvalidModelError, match=r"2 layers with a dropout of 0\.5"):
        captured(built("gru", packed=False), loss=by_keywords)
