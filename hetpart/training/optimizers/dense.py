"""Optimizers of whole parameters, through PyTorch's fused kernels: one pass over memory for an update."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownMemberType=false
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.adagrad import adagrad
from torch.optim.sgd import sgd

from hetpart.training.optimizers.blocks import all_contiguous, flat_blocks
from hetpart.training.optimizers.protocol import State

_LEFT_BY_FUSED = (torch.bfloat16, torch.float16)
"""Of these PyTorch's fused SGD updates the last few elements alone on the CPU (2.13; as many as fill no vector)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an update happens and how far it goes."""

    step: int
    """Counted from 1."""
    lr: float
    scale: float = 1.0
    """Multiplies the gradient first."""

    def count(self, device: torch.device) -> Tensor:
        """``step`` as the fused kernels read it."""
        return torch.tensor(float(self.step), device=device)

    def divisor(self, gradient: Tensor) -> Tensor | None:
        """What the fused kernels divide the gradient by, in float32: one in float64 is multiplied here instead."""
        if self.scale == 1.0:
            return None
        if gradient.dtype == torch.float64:
            gradient.mul_(self.scale)
            return None
        return torch.tensor(1.0 / self.scale if self.scale else inf, device=gradient.device)


class Elementwise(ABC):
    """An optimizer that treats each element alone: it may run over any part of a parameter."""

    __slots__ = ()
    state_names: ClassVar[tuple[str, ...]] = ()

    def init(self, parameter: Tensor) -> State:
        return {name: filled_like(parameter, self.initial(name)) for name in self.state_names}

    def initial(self, name: str) -> float:
        """The number that every element of the state ``name`` starts at."""
        del name
        return 0.0

    @torch.no_grad()
    def update_(
        self, parameter: Tensor, gradient: Tensor, state: State, step: int, lr: float, scale: float = 1.0
    ) -> None:
        """One update in place; ``gradient`` stays as it is: it may be a constant, or another parameter's too."""
        moment = Moment(step, lr, scale)
        states = [state[name] for name in self.state_names]
        if not all_contiguous(parameter, gradient, *states):
            self._update_copies_(parameter, gradient, states, moment)
        elif gradient.dtype == parameter.dtype and scale == 1.0:
            self.apply_(parameter, gradient, state, moment)
        else:
            for block, other, *parts in flat_blocks(parameter, gradient, *states):
                self.apply_(block, other.to(block.dtype, copy=True), self._named(parts), moment)

    def _update_copies_(self, parameter: Tensor, gradient: Tensor, states: list[Tensor], moment: Moment) -> None:
        """The fused kernels read memory in its order and ignore strides: they get copies that are contiguous."""
        homes = [parameter, *states]
        weight, *parts = copies = [home.clone(memory_format=torch.contiguous_format) for home in homes]
        slopes = gradient.to(parameter.dtype, copy=True, memory_format=torch.contiguous_format)
        self.apply_(weight, slopes, self._named(parts), moment)
        for home, copy in zip(homes, copies, strict=True):
            home.copy_(copy)

    def _named(self, states: Sequence[Tensor]) -> State:
        return dict(zip(self.state_names, states, strict=True))

    @abstractmethod
    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        """The update itself, of contiguous tensors of one dtype, while no gradients are recorded.

        Where ``moment`` has a scale, ``gradient`` is scaled in place, as PyTorch's fused kernels do.
        """


def filled_like(tensor: Tensor, number: float) -> Tensor:
    """A new tensor of one number. Zeros take no memory until they are written: the system gives pages on demand."""
    zeros = torch.zeros_like(tensor, requires_grad=False)
    return zeros.fill_(number) if number else zeros


@dataclass(frozen=True, slots=True)
class SGD(Elementwise):
    """w −= lr · (g + weight_decay · w)."""

    lr: float
    weight_decay: float = 0.0

    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        del state
        _sgd_(Momentum(self.lr, 0.0, weight_decay=self.weight_decay), [parameter], [gradient], [], moment)


@dataclass(frozen=True, slots=True)
class Momentum(Elementwise):
    """b = momentum · b + (1 − dampening) · g, where the first b is g; w −= lr · b. As ``torch.optim.SGD``."""

    lr: float
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = ("momentum",)

    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        _sgd_(self, [parameter], [gradient], [state["momentum"]] if self.momentum else [], moment)


def _sgd_(
    rule: Momentum, parameters: list[Tensor], gradients: list[Tensor], buffers: list[Tensor], moment: Moment
) -> None:
    if parameters[0].is_cpu and parameters[0].dtype in _LEFT_BY_FUSED:
        _sgd_one_by_one_(rule, parameters, gradients, buffers, moment)
        return
    torch._fused_sgd_(
        parameters,
        gradients,
        buffers,
        weight_decay=rule.weight_decay,
        momentum=rule.momentum,
        lr=moment.lr,
        dampening=rule.dampening,
        nesterov=rule.nesterov,
        maximize=False,
        is_first_step=moment.step == 1,
        grad_scale=moment.divisor(gradients[0]),
    )


def _sgd_one_by_one_(
    rule: Momentum, parameters: list[Tensor], gradients: list[Tensor], buffers: list[Tensor], moment: Moment
) -> None:
    """What ``torch.optim.SGD`` does where nobody asks for a fused kernel."""
    for gradient in gradients if moment.scale != 1.0 else ():
        gradient.mul_(moment.scale)
    kept: list[Tensor | None] = [None] * len(parameters) if moment.step == 1 else [*buffers] or [None]
    sgd(
        parameters,
        gradients,
        kept,
        has_sparse_grad=False,
        foreach=False,
        weight_decay=rule.weight_decay,
        momentum=rule.momentum,
        lr=moment.lr,
        dampening=rule.dampening,
        nesterov=rule.nesterov,
        maximize=False,
    )
    for buffer, made in zip(buffers, kept, strict=False):
        if made is not None and made is not buffer:
            buffer.copy_(made)


@dataclass(frozen=True, slots=True)
class Adam(Elementwise):
    """Kingma and Ba, arXiv 1412.6980; ``weight_decay`` is added to the gradient. As ``torch.optim.Adam``."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        self._kernel()(
            [parameter],
            [gradient],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [moment.count(parameter.device)],
            lr=moment.lr,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=moment.divisor(gradient),
        )

    def _kernel(self) -> Callable[..., object]:
        return torch._fused_adam_


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Loshchilov and Hutter, arXiv 1711.05101: w −= lr · weight_decay · w, beside Adam. As ``torch.optim.AdamW``."""

    weight_decay: float = 0.01

    def _kernel(self) -> Callable[..., object]:
        return torch._fused_adamw_


@dataclass(frozen=True, slots=True)
class Adagrad(Elementwise):
    """s += g²; w −= lr / (1 + (step − 1) · lr_decay) · g / (√s + eps). As ``torch.optim.Adagrad``."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    eps: float = 1e-10
    initial_accumulator: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = ("sum",)

    def initial(self, name: str) -> float:
        del name
        return self.initial_accumulator

    def apply_(self, parameter: Tensor, gradient: Tensor, state: State, moment: Moment) -> None:
        fused = parameter.device.type == "cpu"  # PyTorch has this fused kernel for the CPU alone
        if not fused and moment.scale != 1.0:
            gradient.mul_(moment.scale)
        adagrad(
            [parameter],
            [gradient],
            [state["sum"]],
            [torch.tensor(float(moment.step - 1))],  # which the call counts up
            fused=fused,
            foreach=not fused,
            grad_scale=moment.divisor(gradient) if fused else None,
            lr=moment.lr,
            weight_decay=self.weight_decay,
            lr_decay=self.lr_decay,
            eps=self.eps,
            maximize=False,
        )
