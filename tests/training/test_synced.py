# pyright: reportUnknownMemberType=false
"""What is copied into a model, or taken over from a checkpoint, is all of it or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hetpart import training
from hetpart.errors import InvalidFeedError, InvalidModelError
from hetpart.training import SGD, AdamW
from hetpart.training.step import Step

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
Y = torch.randint(0, 5, (8,), generator=torch.Generator().manual_seed(1))
RULE = SGD(0.1)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), y)


def trained(model: nn.Module, optimizer: Any = RULE) -> Step:
    step = training.compile(
        model, loss_of, optimizer=optimizer, example_batch=(X, Y), emulate=True, hardware="emulated"
    )
    for _ in range(3):
        step(X, Y)
    return step


class Frozen(nn.Module):
    """Half of it learns, and has statistics and a buffer that nothing changes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.below = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).requires_grad_(False)
        self.below[1].running_mean = torch.randn(8)
        self.register_buffer("shift", torch.randn(8))
        self.above, self.unused = nn.Linear(8, 5), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.below.eval()
        shift: Any = self.shift
        return self.above(self.below(x) + shift)


class Twice(nn.Module):
    """Two layers that may have one weight."""

    def __init__(self, *, tied: bool, seed: int = 3) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.one, self.other = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.last = nn.Linear(6, 5)
        if tied:
            self.other.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.other(self.one(x).tanh()).relu())


def test_what_no_step_changes_is_copied_too() -> None:
    step, other = trained(Frozen(1)), Frozen(2)
    step.sync_to(other)
    assert loss_of(other, X, Y).item() == pytest.approx(float(step(X, Y)), rel=1e-6)
    for name, tensor in Frozen(1).state_dict().items():
        if not name.startswith("above"):
            torch.testing.assert_close(other.state_dict()[name], tensor, rtol=0, atol=0)


class Noting(nn.Linear):
    """With a tensor that is neither a parameter nor a buffer in its ``state_dict``."""

    def __init__(self, noted: float) -> None:
        super().__init__(6, 5)
        self.noted = torch.full((2,), noted)

    def get_extra_state(self) -> Tensor:
        return self.noted

    def set_extra_state(self, state: Tensor) -> None:
        self.noted = state


def test_what_a_layer_notes_beside_its_tensors_is_copied_too() -> None:
    step, other = trained(nn.Sequential(Noting(1.0))), nn.Sequential(Noting(2.0))
    step.sync_to(other)
    assert other[0].noted.tolist() == [1.0, 1.0]
    assert loss_of(other, X, Y).item() == pytest.approx(float(step(X, Y)), rel=1e-6)


def test_what_is_expanded_is_not_written_to() -> None:
    step, other = trained(nn.Linear(6, 5)), nn.Linear(6, 5)
    other.bias = nn.Parameter(torch.zeros(1).expand(5))
    before = other.weight.clone()
    with pytest.raises(InvalidFeedError, match="elements of 'bias' lie in one place"):
        step.sync_to(other)
    assert torch.equal(other.weight, before)


def test_a_sparse_content_is_refused() -> None:
    step = trained(nn.Linear(6, 5))
    content = step.state_dict()
    tensors = content["tensors"] | {"weight": content["tensors"]["weight"].to_sparse()}
    with pytest.raises(InvalidFeedError, match=r"'weight' of the content is torch\.sparse_coo"):
        step.load_state_dict(content | {"tensors": tensors})


def test_a_loss_that_is_complex_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="a number of complex64"):
        training.plan(
            nn.Linear(6, 5), lambda net, x: torch.fft.fft(net(x)).sum(), optimizer=RULE, example_batch=(X,),
            hardware="emulated",
        )  # fmt: skip


def test_a_weight_of_two_names_is_copied_to_both() -> None:
    step, other = trained(Twice(tied=True)), Twice(tied=False, seed=4)
    step.sync_to(other)
    assert torch.equal(other.one.weight, other.other.weight)
    assert loss_of(other, X, Y).item() == pytest.approx(float(step(X, Y)), rel=1e-6)


def test_two_weights_are_not_copied_into_one() -> None:
    step, other = trained(Twice(tied=False)), Twice(tied=True, seed=4)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(InvalidFeedError, match=r"'one\.weight' and 'other\.weight' of the step differ, and are one"):
        step.sync_to(other)
    assert all(torch.equal(before[name], tensor) for name, tensor in other.state_dict().items())


def test_a_checkpoint_of_two_weights_is_not_taken_for_one_of_one(tmp_path: Path) -> None:
    trained(Twice(tied=False)).save_checkpoint(tmp_path)
    step = trained(Twice(tied=True))
    before = step.state_dict()["tensors"]
    with pytest.raises(InvalidFeedError, match="are one tensor here, and two in the checkpoint of step 3"):
        step.load_checkpoint(tmp_path)
    assert all(torch.equal(before[name], tensor) for name, tensor in step.state_dict()["tensors"].items())
    own = trained(Twice(tied=True))
    own.save_checkpoint(tmp_path / "own")
    step.load_checkpoint(tmp_path / "own")
    assert float(step(X, Y)) == float(own(X, Y))


def test_a_content_without_content_is_refused_before_anything_is_taken_over() -> None:
    step = trained(Frozen(1), AdamW(1e-2))
    content = step.state_dict()
    step(X, Y)
    before, last = step.state_dict()["tensors"], list(content["tensors"])[-1]
    content["tensors"][last] = content["tensors"][last].to("meta")
    with pytest.raises(InvalidFeedError, match="has a form and no content"):
        step.load_state_dict(content)
    assert all(torch.equal(before[name], tensor) for name, tensor in step.state_dict()["tensors"].items())
