# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Optimizers of the rows that a batch touched: the time of an update depends on them, not on the table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hetpart.training.optimizers.blocks import BLOCK_ELEMENTS, as_vector
from hetpart.training.optimizers.dense import SGD, Adagrad, Adam, Elementwise, Moment, filled_like
from hetpart.training.optimizers.ftrl import FTRL
from hetpart.training.optimizers.protocol import Optimizer, RowOptimizer, State


class Rowwise(ABC):
    """Takes blocks of rows out of table and state, has an elementwise optimizer update them, and puts them back.

    A block stays in the caches meanwhile, so that the table's memory is read once and written once.
    """

    __slots__ = ()
    state_names: ClassVar[tuple[str, ...]] = ()

    def init(self, table: Tensor) -> State:
        return {name: filled_like(table, self.initial(name)) for name in self.state_names}

    def initial(self, name: str) -> float:
        return self.at(1).initial(name)

    @abstractmethod
    def at(self, step: int) -> Elementwise:
        """What updates the rows in update number ``step``."""

    @torch.no_grad()
    def update_rows_(  # noqa: PLR0913 - as the protocol has it
        self, table: Tensor, rows: Tensor, gradient: Tensor, state: State, step: int, lr: float, scale: float = 1.0
    ) -> None:
        rule, moment = self.at(step), Moment(step, lr, scale)
        homes = [as_vector(home) for home in (table, *(state[name] for name in self.state_names))]
        length = max(1, BLOCK_ELEMENTS // max(1, table[:1].numel()))
        for some, slopes in zip(rows.split(length), as_vector(gradient).split(length), strict=True):
            weight, *parts = taken = [home.index_select(0, some) for home in homes]
            named = dict(zip(self.state_names, parts, strict=True))
            own = slopes.to(weight.dtype, copy=scale != 1.0).contiguous()  # what is scaled is scaled in place
            rule.apply_(weight, own, named, moment)
            for home, part in zip(homes, taken, strict=True):
                home.index_copy_(0, some, part)


@dataclass(frozen=True, slots=True)
class LazyAdam(Rowwise):
    """Adam whose moments decay only in the rows that are touched: MindSpore's LazyAdam, ``torch.optim.SparseAdam``.

    m = beta1 · m + (1 − beta1) · g; v = beta2 · v + (1 − beta2) · g²;
    w −= lr · √(1 − beta2^step) / (1 − beta1^step) · m / (√v + eps).
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    state_names: ClassVar[tuple[str, ...]] = Adam.state_names

    def at(self, step: int) -> Elementwise:
        # Adam adds eps after the correction of v, this rule before: dividing eps by the correction makes them one.
        return Adam(self.lr, self.beta1, self.beta2, self.eps / math.sqrt(1.0 - self.beta2**step))


@dataclass(frozen=True, slots=True)
class SparseFTRL(Rowwise):
    """``FTRL`` of the rows that are touched."""

    lr: float
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    initial_accumulator: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = FTRL.state_names

    def at(self, step: int) -> Elementwise:
        del step
        return FTRL(self.lr, self.beta, self.l1, self.l2, self.initial_accumulator)


@dataclass(frozen=True, slots=True)
class SparseAdagrad(Rowwise):
    """``Adagrad`` of the rows that are touched: without weight decay both give the same table."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_accumulator: float = 0.0
    state_names: ClassVar[tuple[str, ...]] = Adagrad.state_names

    def at(self, step: int) -> Elementwise:
        del step
        return Adagrad(self.lr, self.lr_decay, 0.0, self.eps, self.initial_accumulator)


@dataclass(frozen=True, slots=True)
class SparseSGD(Rowwise):
    """``SGD`` of the rows that are touched: without weight decay both give the same table."""

    lr: float

    def at(self, step: int) -> Elementwise:
        del step
        return SGD(self.lr)


def rowwise(optimizer: Optimizer) -> RowOptimizer | None:
    """The row optimizer that leaves the same table as ``optimizer``; None where untouched rows would change too."""
    match optimizer:
        case SGD(weight_decay=0.0):
            return SparseSGD(optimizer.lr)
        case Adagrad(weight_decay=0.0):
            return SparseAdagrad(optimizer.lr, optimizer.lr_decay, optimizer.eps, optimizer.initial_accumulator)
        case _:
            return None
