"""Arcs of a flow network whose capacities are linear in a price, and what a hyperedge becomes in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """Directed arcs. A capacity is ``seconds + price × nbytes``; infinite seconds are never cut."""

    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.float64]

    @classmethod
    def join(cls, parts: list[Arcs]) -> Arcs:
        return cls(
            np.concatenate([part.tails for part in parts]),
            np.concatenate([part.heads for part in parts]),
            np.concatenate([part.seconds for part in parts]),
            np.concatenate([part.nbytes for part in parts]),
        )

    def where(self, mask: NDArray[np.bool_]) -> Arcs:
        return Arcs(self.tails[mask], self.heads[mask], self.seconds[mask], self.nbytes[mask])

    def reversed(self) -> Arcs:
        return Arcs(self.heads, self.tails, self.seconds, self.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Hyperedges:
    """Values with the vertex that makes each, and one (row, vertex) pair per use."""

    home: NDArray[np.int64]
    rows: NDArray[np.int64]
    users: NDArray[np.int64]

    def with_uses(self, rows: NDArray[np.int64], users: NDArray[np.int64]) -> Hyperedges:
        return Hyperedges(self.home, np.concatenate([self.rows, rows]), np.concatenate([self.users, users]))

    def arcs(self, seconds: NDArray[np.float64], nbytes: NDArray[np.float64], certain: int, never: int) -> Arcs:
        """Arcs from home to users, cut once where home stands on the near side and any user on the far side.

        ``certain`` is the terminal on the far side: a user there is cut whenever home is not. Users at ``never``, the
        near terminal, are not cut, nor is a value at home on the far side.
        """
        matters = (seconds > 0) | (nbytes > 0)
        live = (self.home != certain) & matters
        keep = live[self.rows] & (self.users != never) & (self.users != self.home[self.rows])
        rows, users = unique_pairs(self.rows[keep], self.users[keep])
        sure = np.zeros(len(self.home), np.bool_)
        sure[rows[users == certain]] = True
        rows, users = rows[~sure[rows]], users[~sure[rows]]
        count = np.bincount(rows, minlength=len(self.home))
        plain = count[rows] == 1
        shared = np.flatnonzero(count > 1)
        helper = np.zeros(len(self.home), np.int64)
        helper[shared] = -1 - np.arange(len(shared))
        known = np.flatnonzero(sure)
        return Arcs.join(
            [
                arcs_of(self.home[known], np.full(len(known), certain), seconds[known], nbytes[known]),
                arcs_of(self.home[rows[plain]], users[plain], seconds[rows[plain]], nbytes[rows[plain]]),
                arcs_of(self.home[shared], helper[shared], seconds[shared], nbytes[shared]),
                arcs_of(helper[rows[~plain]], users[~plain], np.full(int((~plain).sum()), np.inf)),
            ]
        )


def arcs_of(
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    seconds: NDArray[np.float64],
    nbytes: NDArray[np.float64] | None = None,
) -> Arcs:
    """Arcs that pay no bytes unless told."""
    return Arcs(tails, heads, seconds, np.zeros(len(tails)) if nbytes is None else nbytes)


def number_helpers(parts: list[Arcs], first: int) -> tuple[Arcs, int]:
    """Give each part's helpers, −1 downwards, vertices of their own; also the number of vertices."""
    numbered: list[Arcs] = []
    for part in parts:
        helpers = max(0, -int(min(part.tails.min(initial=0), part.heads.min(initial=0))))
        tails = np.where(part.tails < 0, first - 1 - part.tails, part.tails)
        heads = np.where(part.heads < 0, first - 1 - part.heads, part.heads)
        numbered.append(Arcs(tails, heads, part.seconds, part.nbytes))
        first += helpers
    return Arcs.join(numbered), first
