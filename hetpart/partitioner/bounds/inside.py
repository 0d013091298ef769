"""What certainly lies inside some partition: of many stretches of one path, few partitions break all.

Where both ends of a stretch share a partition, so does every op between them, which runs on no other path. A value that
only such ops make and read crosses no border: the partition holds it inside itself, beside all that lies in buffers. Of
stretches that share no edge n partitions break n − 1 at most; so where more have both ends on the accelerator, one of
them holds what it can. And a partition that holds no whole stretch has two ends at most: of one, and of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import edges, heaviest_path
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

TELLING = 0.004
"""Of the budget: what is less is not looked at."""
STEP = 0.98
"""Amounts that follow each other in more than this ratio are about one."""
MOST_AMOUNTS = 16
"""That are looked at, from the largest on."""
ENDS = 2
"""Of stretches, in a partition that holds none whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Of one path, with no edge in common, each of which holds so much inside a partition that has both its ends."""

    ends: NDArray[np.int64]
    """(M, 2) First and last op of each, which may be one."""
    nbytes: int

    def most_on(self, partitions: int) -> int:
        """Ends on the accelerator, at most, of placements in which none needs to be in one partition."""
        return min(len(self.ends) + partitions - 1, ENDS * partitions)


@dataclass(frozen=True, slots=True, eq=False)
class Insides:
    """Stretches by what they hold."""

    known: tuple[Stretches, ...]
    """From those that hold most on; each are more than the ones before."""

    @classmethod
    def of(cls, problem: PlacementProblem, needs: NDArray[np.int64]) -> Insides:
        """Of the path that needs most.

        Args:
            problem: Whose ops they are.
            needs: (N,) Bytes that every op needs while it runs, some of which may lie in buffers.
        """
        path = heaviest_path(problem, needs.astype(np.float64))
        path = path[problem.legal()[ACCELERATOR, path] & problem.in_sessions[path]]
        held, found = _Held.of(problem, path), list[Stretches]()
        for nbytes in _amounts(held.most, TELLING * problem.budgets[ACCELERATOR]):
            ends = path[np.array([*held.stretches(nbytes)], np.int64).reshape(-1, 2)]
            if len(ends) > (len(found[-1].ends) if found else 0):
                found.append(Stretches(ends, nbytes))
        return cls(tuple(found))

    def among(self, partitions: int) -> Stretches | None:
        """Those that hold most of such as so few partitions cannot all break."""
        return next((one for one in self.known if len(one.ends) >= partitions), None)


def _amounts(most: NDArray[np.int64], least: float) -> list[int]:
    """Different ones, of no less than ``least``, from the largest on."""
    found = list[int]()
    for nbytes in np.unique(most)[::-1].tolist():
        if nbytes < max(1.0, least) or len(found) == MOST_AMOUNTS:
            break
        if not found or nbytes < STEP * found[-1]:
            found.append(nbytes)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """What ops of a path find inside their partition while they run."""

    first: NDArray[np.int64]
    """Per value: the last place of the path that all that make or read it come behind, or are."""
    last: NDArray[np.int64]
    """Per value: the first place of the path that they all come before, or are."""
    sizes: NDArray[np.int64]
    alive: list[NDArray[np.int64]]
    """Per place: the values that may be alive then, those that end first first."""
    scratch: list[int]
    most: NDArray[np.int64]
    """Per place: bytes of all of them, and scratch."""

    @classmethod
    def of(cls, problem: PlacementProblem, path: NDArray[np.int64]) -> _Held:
        crossing = problem.value_returned | ~problem.made | problem.value_left_on_host | (problem.value_bytes == 0)
        behind, before = _places(problem, path)
        uses, maker = problem.value_uses, problem.value_producer
        first, last = np.full(problem.values, -1), np.full(problem.values, len(path))
        first[maker != NO_OP], last[maker != NO_OP] = behind[maker[maker != NO_OP]], before[maker[maker != NO_OP]]
        np.minimum.at(first, uses.rows, behind[uses.ops])
        np.maximum.at(last, uses.rows, before[uses.ops])
        ends = maker.astype(np.int64)
        np.maximum.at(ends, uses.rows, uses.ops)
        inner = np.flatnonzero(~crossing & (first >= 0) & (last < len(path)))
        inner = inner[np.argsort(last[inner], kind="stable")]
        # Ops of a partition run in the order they have.
        alive = [np.flatnonzero((maker[inner] <= op) & (ends[inner] >= op)) for op in path.tolist()]
        sizes, scratch = problem.value_bytes[inner], problem.scratch_bytes[path].tolist()
        most = [int(sizes[values].sum()) + own for values, own in zip(alive, scratch, strict=True)]
        return cls(first[inner], last[inner], sizes, alive, scratch, np.array(most, np.int64))

    def stretches(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """As many as can be, that hold so much: of those behind the last one the one that ends first."""
        begin = 0
        while True:
            found = self._next(nbytes, begin)
            if found is None:
                return
            yield found
            begin = found[1] + (found[0] == found[1])

    def _next(self, nbytes: int, begin: int) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for place in range(begin, len(self.alive)):
            if best is not None and place >= best[1]:
                break
            found = self._around(place, nbytes, begin) if self.most[place] >= nbytes else None
            if found is not None and (best is None or found[1] < best[1]):
                best = found
        return best

    def _around(self, place: int, nbytes: int, begin: int) -> tuple[int, int] | None:
        """The stretch around ``place``, from ``begin`` on, that ends first and holds so much while its op runs."""
        left = nbytes - self.scratch[place]
        if left <= 0:
            return place, place
        values = self.alive[place]
        values = values[self.first[values] >= begin]
        held = self.sizes[values].cumsum()
        count = int(np.searchsorted(held, left)) + 1
        if count > len(values):
            return None
        values = values[:count]
        return min(place, int(self.first[values].min())), max(place, int(self.last[values].max()))


def _places(problem: PlacementProblem, path: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(N,) The last place of a path that each op comes behind, or −1; and the first that it comes before, or none."""
    behind, before = [-1] * problem.ops, [len(path)] * problem.ops
    for place, op in enumerate(path.tolist()):
        behind[op] = before[op] = place
    pairs, on_path = list(zip(*edges(problem), strict=True)), {*path.tolist()}
    for maker, user in pairs:
        if user not in on_path:
            behind[user] = max(behind[user], behind[maker])
    for maker, user in sorted(pairs, reverse=True):
        if maker not in on_path:
            before[maker] = min(before[maker], before[user])
    return np.array(behind, np.int64), np.array(before, np.int64)
