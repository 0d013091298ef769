"""Where long partitions are cut short cheaply, and what crosses between two such places.

Every partition takes a session's bytes, and what is copied for a partition lies in buffers while it runs: of layers
that each bring something to copy, two partitions hold half as much of that as one, and leave room for weights. Cheap
places to cut are those that the cheapest cut without sessions leaves on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.mincut import CutNetwork, held_if_copied
from hetpart.partitioner.search.fill import Pieces
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scorer
    from hetpart.partitioner.scores.wiring import Wiring

MOST_PARTED = 6
"""Partitions that a placement is parted into."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """How placements of a problem are parted."""

    scorer: Scorer
    within: PlacementProblem
    """With what can fit nowhere shut out."""
    wiring: Wiring
    cheap: Placement
    """The cheapest without sessions: what it leaves on the host may part partitions."""

    @classmethod
    def of(cls, scorer: Scorer, wiring: Wiring, price: float) -> Parts:
        """Of what ``wiring`` is of, where a byte is worth ``price``."""
        within = wiring.problem
        return cls(scorer, within, wiring, CutNetwork.of(within).cut(price).smallest)

    def parted(self, whole: Placement) -> Iterator[Placement]:
        """``whole`` in two partitions, three, and so on, that share out what crosses; nothing where nothing does."""
        split = whole & self.cheap
        pieces = self.between(split, whole)
        sizes = self.crossing(pieces, whole)
        known = {whole.tobytes()}
        for count in range(2, MOST_PARTED + 1) if sizes.any() else ():
            found = self.joined(split, pieces, sizes, float(sizes.sum()) / count)
            if found.tobytes() not in known:
                known.add(found.tobytes())
                yield found

    def joined(self, split: Placement, pieces: Pieces, sizes: NDArray[np.int64], most: float) -> Placement:
        """``split`` with all pieces but as few as keep what crosses within ``most`` bytes between two of them."""
        placement, load = split.copy(), 0
        for piece in np.argsort(pieces.order[pieces.ends[:-1]]).tolist():
            load = load + int(sizes[piece]) if load + sizes[piece] <= most else 0
            if load or not sizes[piece]:
                placement[pieces.ops(piece)] = ACCELERATOR
        return placement

    def between(self, split: Placement, whole: Placement) -> Pieces:
        """What ``whole`` has more than ``split``, in parts that lie between the same partitions of ``split``."""
        groups, of_op = self.wiring.groups, self.wiring.groups.of_op
        first = np.full(len(groups), self.within.ops, np.int64)
        np.minimum.at(first, of_op, self.scorer.score(split).cut.partition)
        more = np.flatnonzero(whole > split)
        parts, piece = np.unique(first[of_op[more]], return_inverse=True)
        order = np.argsort(piece, kind="stable")
        ends = np.searchsorted(piece[order], np.arange(len(parts) + 1))
        return Pieces(more[order], ends, np.zeros(len(parts), np.int64))

    def crossing(self, pieces: Pieces, placement: Placement) -> NDArray[np.int64]:
        """Bytes that every piece reads of what is copied to the accelerator, or makes of what is copied from it."""
        problem, count = self.within, len(pieces.ends) - 1
        of_op = np.full(problem.ops, -1, np.int64)
        of_op[pieces.order] = np.repeat(np.arange(count), np.diff(pieces.ends))
        home, uses, nbytes = problem.home(placement), problem.value_uses, held_if_copied(problem)
        copied = problem.copies(placement).any(axis=0)
        read = (of_op[uses.ops] >= 0) & ~uses.on_host & (copied & (home != ACCELERATOR))[uses.rows]
        piece, value = unique_pairs(of_op[uses.ops[read]], uses.rows[read])
        sizes = np.zeros(count, np.int64)
        np.add.at(sizes, piece, nbytes[ACCELERATOR, value])
        made = np.flatnonzero(copied & (home == ACCELERATOR) & problem.made)
        made = made[of_op[problem.value_producer[made]] >= 0]
        np.add.at(sizes, of_op[problem.value_producer[made]], nbytes[HOST, made])
        return sizes
