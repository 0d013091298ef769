# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Training as PyTorch does it eagerly, optimizers as their papers write them: what compiled steps are compared with.

Nothing of hetpart is used. A parameter's gradient says which rows were asked for, where it is sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

Rule = Callable[[Tensor, Tensor, dict[str, Tensor], int], Tensor]
"""(weight, gradient, state, number of the update) → new weight; state is changed."""


def sgd(lr: float) -> Rule:
    return lambda weight, slope, _, __: weight - lr * slope


def adam(lr: float, eps: float = 1e-8) -> Rule:
    """With eps added before the second moment is corrected, as MindSpore and ``torch.optim.SparseAdam`` have it."""

    def rule(weight: Tensor, slope: Tensor, state: dict[str, Tensor], step: int) -> Tensor:
        first = state["first"] = 0.9 * state.get("first", torch.zeros_like(weight)) + 0.1 * slope
        second = state["second"] = 0.999 * state.get("second", torch.zeros_like(weight)) + 0.001 * slope**2
        return weight - lr * sqrt(1 - 0.999**step) / (1 - 0.9**step) * first / (second.sqrt() + eps)

    return rule


def plain_adam(lr: float, eps: float = 1e-8) -> Rule:
    """With eps added after, as Kingma and Ba have it."""
    return lambda weight, slope, state, step: adam(lr, eps * sqrt(1 - 0.999**step))(weight, slope, state, step)


def ftrl(lr: float, l1: float, l2: float, accumulator: float, beta: float = 0.0) -> Rule:
    """McMahan et al., 2013, algorithm 1."""

    def rule(weight: Tensor, slope: Tensor, state: dict[str, Tensor], step: int) -> Tensor:
        del step
        before = state.get("squares", torch.full_like(weight, accumulator))
        after = state["squares"] = before + slope**2
        drift = state.get("linear", torch.zeros_like(weight))
        drift = state["linear"] = drift + slope - (after.sqrt() - before.sqrt()) / lr * weight
        shrunk = torch.sign(drift) * l1 - drift
        return torch.where(drift.abs() > l1, shrunk / ((beta + after.sqrt()) / lr + l2), 0.0)

    return rule


class ByHand:
    """A model that is trained by the rules of its parameters, by the beginning of their names."""

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[..., Tensor],
        rules: Mapping[str, Rule],
        initial: float = 0.0,
        clip: float | None = None,
    ):
        """``initial`` is the content of ``squares`` before the first update, ``clip`` the most that a norm may be."""
        self.model, self._loss, self._initial = model, loss, initial
        named = dict(model.named_parameters())
        self._rules = {name: next(rule for start, rule in rules.items() if name.startswith(start)) for name in named}
        self._clip = clip
        self._states: dict[str, dict[str, Tensor]] = {name: {} for name in named}
        self._steps = 0

    def __call__(self, *batch: Tensor) -> float:
        """One update; the loss before it."""
        self._steps += 1
        self.model.zero_grad()
        loss = self._loss(self.model, *batch)
        loss.backward()
        with torch.no_grad():
            self._shorten()
            for name, parameter in self.model.named_parameters():
                self._update(name, parameter)
        return loss.item()

    def losses(self, batches: Sequence[Any], steps: int) -> list[float]:
        return [self(*batches[number % len(batches)]) for number in range(steps)]

    def _shorten(self) -> None:
        """Make the norm of all gradients together no more than ``clip``, as ``torch.nn.utils.clip_grad_norm_`` does."""
        slopes = [parameter.grad.to_dense() for parameter in self.model.parameters() if parameter.grad is not None]
        norm = sqrt(sum(slope.double().square().sum().item() for slope in slopes))
        if self._clip is not None and norm > self._clip:
            for parameter in self.model.parameters():
                parameter.grad = None if parameter.grad is None else parameter.grad * (self._clip / (norm + 1e-6))

    def _update(self, name: str, parameter: Tensor) -> None:
        slope: Any = parameter.grad
        if not slope.is_sparse:
            parameter.copy_(self._rules[name](parameter, slope, self._states[name], self._steps))
            return
        slope = slope.coalesce()
        rows, state = slope.indices()[0], self._states[name]
        taken = {key: content[rows] for key, content in state.items()}
        parameter[rows] = self._rules[name](parameter[rows], slope.values(), taken, self._steps)
        for key, content in taken.items():
            if key not in state:
                state[key] = torch.full_like(parameter, self._initial if key == "squares" else 0.0)
            state[key][rows] = content
