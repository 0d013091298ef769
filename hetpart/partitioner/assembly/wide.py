"""Lay values out so that those held at the same time do not overlap, whichever two are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import Packing, aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def pack_apart(nbytes: Sequence[int], met: NDArray[np.bool_]) -> Packing:
    """A place for every size, such that those of a pair in ``met`` (R, R) share no byte.

    The largest first, each as low as can be.
    """
    sizes = np.array([aligned(size) for size in nbytes], np.int64)
    offsets = np.zeros(len(sizes), np.int64)
    placed = np.zeros(len(sizes), np.bool_)
    for row in np.argsort(-sizes, kind="stable").tolist():
        taken = np.flatnonzero(placed & met[row])
        offsets[row] = _lowest_gap(offsets[taken], sizes[taken], int(sizes[row]))
        placed[row] = True
    return Packing(tuple(offsets.tolist()), int((offsets + sizes).max(initial=0)))


def _lowest_gap(starts: NDArray[np.int64], sizes: NDArray[np.int64], wanted: int) -> int:
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(starts + sizes[order])])
    free = np.flatnonzero(starts - ends[:-1] >= wanted)
    return int(ends[free[0]] if len(free) else ends[-1])
