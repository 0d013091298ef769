# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Modules whose code takes gradients, as plans against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree

import hetpart
from hetpart.errors import InvalidModelError

EMULATED = "emulated"
Code = Callable[["Derived", Tensor], Any]


class Derived(nn.Module):
    """Something of a small network and what it is given."""

    seen: Tensor

    def __init__(self, code: Code) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
        self.register_buffer("seen", torch.zeros(4))
        self._code = code

    def forward(self, x: Tensor) -> Any:
        return self._code(self, x)

    def energy(self, x: Tensor) -> Tensor:
        return self.net(x).square().sum()


def _forces(model: Derived, x: Tensor) -> Any:
    x = x.detach().requires_grad_()
    energy = model.energy(x)
    (slope,) = torch.autograd.grad(energy, x, create_graph=True)
    return {"energy": energy, "forces": -slope, "curve": torch.autograd.grad(slope.sum(), x)[0]}


def _learned(model: Derived, x: Tensor) -> Any:
    """Of two steps of gradient descent within."""

    def loss(held: dict[str, Tensor]) -> Tensor:
        return functional.mse_loss(torch.func.functional_call(model.net, held, (x,)), x)

    held: dict[str, Tensor] = dict(model.net.named_parameters())
    for _ in range(2):
        slopes = torch.func.grad(loss)(held)
        held = {name: weight - 0.1 * slopes[name] for name, weight in held.items()}
    return torch.func.functional_call(model.net, held, (x,))


def _pulled(model: Derived, x: Tensor) -> Any:
    made, pull, *_ = torch.func.vjp(model.net, x)
    return made, pull(torch.ones_like(made))


CODE: dict[str, Code] = {
    "grad": lambda model, x: torch.func.grad(model.energy)(x),
    "vmap of grad": lambda model, x: torch.vmap(torch.func.grad(model.energy))(x),
    "jacrev": lambda model, x: torch.func.jacrev(model.net)(x[0]),
    "jacfwd": lambda model, x: torch.func.jacfwd(model.net)(x[0]),
    "hessian": lambda model, x: torch.func.hessian(model.energy)(x[0]),
    "vjp": _pulled,
    "jvp": lambda model, x: torch.func.jvp(model.net, (x,), (torch.ones_like(x),)),
    "jvp of grad": lambda model, x: torch.func.jvp(torch.func.grad(model.energy), (x,), (x.sin(),)),
    "autograd.grad": _forces,
    "functional.jacobian": lambda model, x: torch.autograd.functional.jacobian(model.net, x[0]),
    "steps of descent": _learned,
    "of attention": lambda _, x: torch.func.grad(
        lambda y: functional.scaled_dot_product_attention(y[None], x[None], x[None]).square().sum()
    )(x),
    "of places": lambda _, x: torch.func.grad(lambda y: y[torch.tensor([0, 1, 1])].square().sum())(x),
    "of an inverse": lambda model, x: torch.func.grad(lambda y: torch.linalg.inv(y + 5 * torch.eye(4)).sum())(
        x.mT @ model.net(x)
    ),
}


def _assert_eager(model: Derived, x: Tensor, **options: Any) -> hetpart.PartitionedModel:
    planned = hetpart.partition(model, args=(x,), hardware=EMULATED, placement="random:3", **options)
    run, other = planned.to_module(emulate=True), torch.linspace(-1, 2, 20).view(5, 4)[: x.shape[0]]
    torch.testing.assert_close(run(other), pytree.tree_map(torch.detach, model(other)))
    return planned


TOGETHER = (("grad", "autograd.grad", "steps of descent"), ("jacrev", "jacfwd", "hessian"))
"""What each sends a module the way that its gradients are read: the first alone are those of open sizes below."""
GROUPS = (*TOGETHER, *((name,) for name in CODE if not any(name in group for group in TOGETHER)))


@pytest.mark.parametrize("names", GROUPS, ids=", ".join)
def test_gradients_are_eager_pytorchs(names: Sequence[str]) -> None:
    _assert_eager(Derived(lambda model, x: {name: CODE[name](model, x) for name in names}), torch.ones(3, 4))


@pytest.mark.parametrize("name", ["grad", "autograd.grad", "steps of descent"])
def test_sizes_differ_from_the_example(name: str) -> None:
    model, x = Derived(CODE[name]), torch.ones(3, 4)
    rows = {"x": {0: "rows"}}
    planned = hetpart.partition(model, args=(x,), dynamic_shapes=rows, shape={"rows": "?"}, hardware=EMULATED)
    run = planned.to_module(emulate=True)
    for number in (1, 5):
        other = torch.linspace(-1, 2, 4 * number).view(number, 4)
        torch.testing.assert_close(run(other), pytree.tree_map(torch.detach, model(other)))


def test_an_argument_that_needs_a_gradient() -> None:
    model = Derived(lambda model, x: -torch.autograd.grad(model.energy(x), x)[0])
    x = torch.ones(3, 4, requires_grad=True)
    run = hetpart.partition(model, args=(x,), hardware=EMULATED).to_module(emulate=True)
    other = torch.full((3, 4), 0.3, requires_grad=True)
    torch.testing.assert_close(run(other), model(other))


def test_gradients_are_of_the_module_and_the_line_that_take_them() -> None:
    decisions = _assert_eager(Derived(_forces), torch.ones(3, 4)).plan.decisions
    assert {decision.scope for decision in decisions} == {"", "net.0", "net.1", "net.2"}
    assert all(f"{__name__.rpartition('.')[2]}.py:" in decision.line for decision in decisions)


def _branching(model: Derived, x: Tensor) -> Tensor:
    return torch.func.grad(lambda y: torch.cond(y.sum() > 0, model.energy, lambda z: z.sum(), (y,)))(x)


def _counting(model: Derived, x: Tensor) -> Tensor:
    model.seen.add_(torch.func.grad(model.energy)(x).sum(0))
    return model.seen


def test_what_is_refused_leaves_pytorch_as_it_was() -> None:
    for code in (_branching, _counting):
        with pytest.raises(InvalidModelError, match="takes gradients of such code"):
            hetpart.partition(Derived(code), args=(torch.ones(3, 4),), hardware=EMULATED)
        assert torch.equal(torch.func.grad(torch.sum)(torch.zeros(2)), torch.ones(2))
    _assert_eager(Derived(CODE["hessian"]), torch.ones(3, 4))


def test_a_program_has_lost_them() -> None:
    model = Derived(lambda _, x: torch.func.grad(lambda y: y.square().sum())(x))
    program = torch.export.export(model, (torch.ones(4),))
    with pytest.raises(InvalidModelError, match="give the module itself"):
        hetpart.partition(program, hardware=EMULATED)
    assert torch.equal(torch.func.grad(torch.sum)(torch.zeros(2)), torch.ones(2))
