# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The rows a batch asks for, each once, and where in the batch each was asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hetpart.errors import InvalidFeedError


@dataclass(frozen=True, slots=True, eq=False)
class Unique:
    """U distinct ids of N: what ``torch.unique`` finds, and the order that sums of gradients are taken in."""

    ids: Tensor
    """int64 [U], ascending."""
    order: Tensor
    """int64 [N]: positions in the flattened batch, those of one id side by side, in the order of the batch."""
    starts: Tensor
    """int64 [U + 1]: ``order[starts[u]:starts[u + 1]]`` are the positions of ``ids[u]``."""
    shape: torch.Size
    """Of the batch."""

    @classmethod
    def of_sorted(cls, values: Tensor, order: Tensor, shape: torch.Size | None = None) -> Unique:
        """Of what a stable sort gave."""
        distinct, counts = torch.unique_consecutive(values, return_counts=True)
        starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        return cls(distinct, order, starts, order.shape if shape is None else shape)

    def of_rows(self) -> Unique:
        """Those from 0 on: what was padding may have been given a number below."""
        first = int(torch.searchsorted(self.ids, 0))
        return Unique(self.ids[first:], self.order, self.starts[first:], self.shape)

    def inverse(self) -> Tensor:
        """int64 of the batch's shape: ``ids[inverse]`` is the batch."""
        which = torch.repeat_interleave(self.starts.diff(), output_size=self.order.numel())
        return torch.empty_like(self.order).index_copy_(0, self.order, which).view(self.shape)

    def require_rows(self, table: Tensor) -> None:
        """See that every id is a row of ``table``.

        Raises:
            InvalidFeedError: one is not; it names the least and the most.
        """
        if not self.ids.numel():
            return
        least, most = int(self.ids[0]), int(self.ids[-1])
        if least < 0 or most >= len(table):
            raise InvalidFeedError(
                f"ids go from {least} to {most}, and the table has {len(table)} rows",
                hint="rows are counted from 0: hash or clip the ids, or make the table longer",
            )


def unique(ids: Tensor) -> Unique:
    """The distinct ids of an integer tensor of any shape."""
    values, order = torch.sort(ids.reshape(-1).to(torch.int64), stable=True)
    return Unique.of_sorted(values, order, ids.shape)
