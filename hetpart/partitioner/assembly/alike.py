"""Which partitions run alike: their ops agree one by one, as they do in the repeated layers of deep models."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.likeness import likenesses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetpart.cost_model.fusion import Fusions
    from hetpart.cost_model.session.kernels import Lane
    from hetpart.graph.ir import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Names sessions such that those of one name have kernels of the same forms, read and made in the same order."""

    kinds: NDArray[np.int64]
    """(N,) Ops of one kind agree in themselves, in their operands, and in what a kernel of theirs takes."""
    fused: NDArray[np.int64]
    """(N,) What is fused with what."""
    offsets: NDArray[np.int64]
    """(N + 1,)"""
    operands: NDArray[np.int64]
    """Values that each op reads and makes, one op after the other."""

    @classmethod
    def of(cls, graph: Graph, fusions: Fusions, lanes: Sequence[Lane]) -> Alike:
        """Of all partitions of ``graph`` on ``lanes``."""
        known: dict[Hashable, int] = {}
        fused = np.array(fusions.groups, np.int64)
        together: list[int] = np.bincount(fused, minlength=len(graph.ops))[fused].tolist()
        kinds: list[int] = []
        for op, like in zip(graph.ops, likenesses(graph, fusions), strict=True):
            scratch = tuple([lane.scratch.get(op.id) for lane in lanes])
            key = (like, together[op.id], op.id in fusions.folded, fusions.kernels.get(op.id), scratch)
            kinds.append(known.setdefault(key, len(known)) if like is not None else -1 - op.id)
        touched = [(*op.uses, *op.results) for op in graph.ops]
        ends = np.cumsum([0, *map(len, touched)])
        return cls(np.array(kinds, np.int64), fused, ends, np.array([v for one in touched for v in one], np.int64))

    def name(self, ops: NDArray[np.int64], left: NDArray[np.int64]) -> Hashable:
        """Of the session that runs ``ops`` and leaves the values ``left`` to others, both in ascending order."""
        counts = self.offsets[ops + 1] - self.offsets[ops]
        starts = np.cumsum(counts) - counts
        touched = self.operands[np.arange(counts.sum()) + np.repeat(self.offsets[ops] - starts, counts)]
        values, places = np.unique(touched, return_inverse=True)
        groups = np.unique(self.fused[ops], return_inverse=True)[1]
        parts = (self.kinds[ops], groups, places, np.searchsorted(values, left))
        return tuple(part.tobytes() for part in parts)
