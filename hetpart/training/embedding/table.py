"""A table that is looked up and whose touched rows alone are updated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetpart.errors import InvalidOptionError
from hetpart.training.embedding.bags import Bags, gradient_blocks, lookup
from hetpart.training.embedding.unique import Unique, unique
from hetpart.training.optimizers import RowOptimizer, State


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """The rows a batch asks for, each once. ``rows[inverse]`` is what the model sees."""

    rows: Tensor
    """[U, d], a copy: the leaf that a gradient is taken of."""
    inverse: Tensor
    """int64 of the batch's shape."""
    unique: Unique


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Weights [V, d] with the optimizer of their rows and its state, in memory or in files that are mapped into it.

    Time and memory of every call depend on the batch, not on V.
    """

    weight: Tensor
    optimizer: RowOptimizer
    state: State

    @classmethod
    def of(cls, weight: Tensor, optimizer: RowOptimizer) -> Table:
        """``weight`` itself, updated in place, before the first update.

        Raises:
            InvalidOptionError: ``optimizer`` is none of rows.
        """
        given: Any = optimizer
        if not isinstance(given, RowOptimizer):
            raise InvalidOptionError(
                f"the optimizer of a table cannot be {given!r}",
                hint="it is one of rows: LazyAdam, SparseAdagrad, SparseFTRL or SparseSGD",
            )
        return cls(weight.detach(), optimizer, optimizer.init(weight))

    def pick(self, ids: Tensor) -> Picked:
        """Distinct rows as a leaf: U · d numbers cross to where the model runs, and its gradient comes back as [U, d].

        Raises:
            InvalidFeedError: an id is no row of the table.
        """
        found = unique(ids)
        found.require_rows(self.weight)
        return Picked(lookup(self.weight, found.ids), found.inverse(), found)

    def update_(self, ids: Tensor, gradient: Tensor, step: int, lr: float, scale: float = 1.0) -> None:
        """Update the rows ``ids``, int64 [U] without repetition, from their gradient [U, d]."""
        self.optimizer.update_rows_(self.weight, ids, gradient, self.state, step, lr, scale)

    def update_looked_up_(self, gradient: Tensor, of: Unique, step: int, lr: float, scale: float = 1.0) -> None:
        """Update every row of ``of`` from the gradient of looked-up rows, N · d numbers in any shape that ends in d."""
        self._update_blocks_(gradient_blocks(gradient, of), step, lr, scale)

    def update_bags_(self, gradient: Tensor, bags: Bags, of: Unique, step: int, lr: float, scale: float = 1.0) -> None:
        """Update every row of ``of``, the distinct ids of ``bags``, from the gradient of the bags' sums, [B, d]."""
        self._update_blocks_(gradient_blocks(gradient, of, *bags.sources()), step, lr, scale)

    @torch.no_grad()
    def _update_blocks_(self, blocks: Iterable[tuple[Tensor, Tensor]], step: int, lr: float, scale: float) -> None:
        """A block's gradient is summed and used while the caches hold it: [U, d] is never written to memory."""
        for ids, slopes in blocks:
            self.optimizer.update_rows_(self.weight, ids, slopes, self.state, step, lr, scale)
