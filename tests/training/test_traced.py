# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""What is traced of a loss, and how what is not is told."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.compiled import Running, capture, place

DRAWN = torch.Generator().manual_seed(0)


def branching(model: nn.Module, x: Tensor) -> Tensor:
    made = model(x)
    return made.sum() if x.sum() > 0 else made.mean()


def penalised(model: nn.Module, x: Tensor) -> Tensor:
    given = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(given).sum(), given, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


def drawing(model: nn.Module, x: Tensor) -> Tensor:
    return (model(x) * torch.rand(4, 2, generator=DRAWN)).sum()


def mistaken(model: nn.Module, x: Tensor) -> Tensor:
    return model(x @ x)


def written_over(model: nn.Module, x: Tensor) -> Tensor:
    made = model(x).exp()
    loss = made.square().sum()
    with torch.no_grad():
        made.mul_(2)
    return loss


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (branching, "data-dependent"),
        (penalised, "the loss of Linear takes gradients itself"),
        (drawing, r"draws numbers from a torch\.Generator \(aten\.rand\.generator\)"),
        (written_over, "writes over a tensor whose content its gradient needs"),
        (mistaken, r"mat1 and mat2|same reduction dim"),
    ],
)
def test_a_refusal_is_one_message(loss: object, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    """PyTorch prints the graph so far, and logs tracebacks."""
    with pytest.raises(InvalidModelError, match=why) as error:
        capture(nn.Linear(3, 2), loss, optimizer=SGD(0.1), example_batch=(torch.ones(4, 3),))  # pyright: ignore
    assert error.value.hint
    assert capfd.readouterr() == ("", "")


def likely(model: nn.Module, x: Tensor) -> Tensor:
    mean, spread = model(x).chunk(2, -1)
    return nn.functional.gaussian_nll_loss(mean, x[:, :1], spread.exp())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_losses_that_look_at_their_numbers_are_traced_in_whatever_mode(mode: type) -> None:
    torch.manual_seed(0)
    model, batch = nn.Linear(3, 2), torch.rand(4, 3)
    with mode():
        made = capture(model, likely, optimizer=SGD(0.1), example_batch=(batch,))
        step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
        losses = [step(batch).item() for _ in range(3)]
    optimizer, wanted = torch.optim.SGD(model.parameters(), 0.1), list[float]()
    for _ in losses:
        optimizer.zero_grad()
        loss = likely(model, batch)
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    assert losses == pytest.approx(wanted, rel=1e-5)


class Frozen(nn.Module):
    """A layer that is trained, behind what inference mode freezes in four ways; one of them is trained after all."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(5))

    @torch.inference_mode()
    def decorated(self, x: Tensor) -> Tensor:
        return self.layers[0](x)

    @cast("Any", torch.inference_mode)
    def bare(self, x: Tensor) -> Tensor:
        return self.layers[1](x)

    def forward(self, x: Tensor) -> Tensor:
        made = self.decorated(x).clone() + self.bare(x).clone()
        with torch.inference_mode():
            inner = self.layers[2](x)
            with torch.inference_mode(mode=False):
                trained = self.layers[3](x)
        return self.layers[4](made + inner.clone()) + trained


def test_what_inference_mode_freezes_is_not_trained() -> None:
    torch.manual_seed(0)
    model, batch = Frozen(), torch.rand(4, 3)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    kind = torch.inference_mode
    before = kind.__enter__, kind.__exit__
    made = capture(model, loss, optimizer=SGD(0.1), example_batch=(batch,))
    assert (kind.__enter__, kind.__exit__) == before
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    losses = [step(batch).item() for _ in range(3)]
    held = step.state_dict()["tensors"]
    optimizer, wanted = torch.optim.SGD(model.parameters(), 0.1), list[float]()
    for _ in losses:
        optimizer.zero_grad()
        found = loss(model, batch)
        found.backward()
        optimizer.step()
        wanted.append(found.item())
    assert losses == pytest.approx(wanted, rel=1e-5)
    frozen = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert frozen == {f"layers.{n}.{kind}" for n in range(3) for kind in ("weight", "bias")}
    assert not frozen & set(held)
