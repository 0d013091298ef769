"""Hyperedges of a placement problem: which ops use which value or weight, and from where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """For each hyperedge, the ops that use it, as compressed rows."""

    offsets: NDArray[np.int64]
    """Row ``i`` is ``ops[offsets[i]:offsets[i + 1]]``."""
    ops: NDArray[np.int32]
    on_host: NDArray[np.bool_]
    """Per use: the op's accelerator kernel reads this operand from host memory."""
    rows: NDArray[np.int64] = field(init=False)
    """The hyperedge each use belongs to, parallel to ``ops``."""

    def __post_init__(self) -> None:
        rows = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        object.__setattr__(self, "rows", rows)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[tuple[int, bool]]]) -> Uses:
        """Rows of (op, read from host memory)."""
        flat = [use for row in rows for use in row]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return cls(
            offsets,
            np.array([op for op, _ in flat], np.int32),
            np.array([host for _, host in flat], np.bool_),
        )


def use_devices(uses: Uses, placement: Placement) -> NDArray[np.int8]:
    """Device that reads each use: its op's, or the host for a host operand."""
    devices = placement[uses.ops]
    return np.where(uses.on_host, np.int8(0), devices)


def unique_pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every distinct (first, second) pair of numbers, none below 0, once, in ascending order."""
    span = int(second.max(initial=0)) + 1
    keys = np.sort(first * span + second)
    fresh = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    one, other = np.divmod(keys[fresh], span)  # NumPy's unique hashes integers, which takes five times as long
    return one, other
