"""A placement that changes one group at a time, with its exact cost and weight bytes kept up to date.

Every figure a move changes follows from counts: for each value the groups that read it on either device, for each
weight the groups that hold it on the accelerator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.wiring import Wiring


class Ledger:
    """``cost`` leaves session overheads out, as the problem's does; ``nbytes`` is what weighs on the accelerator."""

    __slots__ = ("_bytes", "_holders", "_home", "_on_accelerator", "_on_host", "cost", "nbytes", "side", "wiring")

    def __init__(self, wiring: Wiring, placement: Placement) -> None:
        self.wiring = wiring
        groups = wiring.groups
        side = np.zeros(len(groups), np.int64)
        side[groups.of_op] = placement
        self.side: list[int] = side.tolist()
        """1 for a group on the accelerator."""
        self.cost = wiring.problem.cost(placement)
        self._bytes: list[int] = groups.weight_bytes.tolist()
        self._count()
        self.nbytes = wiring.problem.given_bytes
        self.nbytes += sum(own for own, here in zip(wiring.own_bytes, self.side, strict=True) if here)
        self.nbytes += sum(size for size, held in zip(self._bytes, self._holders, strict=True) if held)

    def _count(self) -> None:
        wiring = self.wiring
        self._home = [int(given) for given in wiring.given_there]
        self._on_accelerator = [int(wanted) for wanted in wiring.wanted_there]
        self._on_host = [int(fixed) for fixed in wiring.read_on_host]
        self._holders = [0] * len(self._bytes)
        for group, here in enumerate(self.side):
            self._tally(group, here, 1)

    def _tally(self, group: int, here: int, step: int) -> None:
        wiring = self.wiring
        for value in wiring.makes[group]:
            self._home[value] = here
        readers = self._on_accelerator if here else self._on_host
        for value in wiring.reads[group]:
            readers[value] += step
        if here:
            for weight in wiring.shared[group]:
                self._holders[weight] += step

    def placement(self) -> Placement:
        return np.array(self.side, np.int8)[self.wiring.groups.of_op]

    def delta(self, group: int) -> tuple[float, int]:
        """What moving ``group`` to the other device adds to the cost and to the accelerator's bytes."""
        wiring, here = self.wiring, self.side[group]
        seconds, nbytes = wiring.swing[group] + self._copied_for(group, here), wiring.own_bytes[group]
        for value in wiring.makes[group]:
            if self._on_host[value]:
                seconds += wiring.down[value]
            if self._on_accelerator[value]:
                seconds -= wiring.up[value]
        for weight in wiring.shared[group]:
            if self._holders[weight] == here:
                nbytes += self._bytes[weight]
        return (-seconds, -nbytes) if here else (seconds, nbytes)

    def _copied_for(self, group: int, here: int) -> float:
        """Seconds of copies up that ``group`` alone needs on the accelerator, less those down it alone needs off it."""
        wiring, seconds = self.wiring, 0.0
        for value in wiring.reads[group]:
            if self._home[value]:
                if self._on_host[value] == 1 - here:
                    seconds -= wiring.down[value]
            elif self._on_accelerator[value] == here:
                seconds += wiring.up[value]
        return seconds

    def flip(self, group: int) -> None:
        """Move ``group`` to the other device."""
        seconds, nbytes = self.delta(group)
        self.cost += seconds
        self.nbytes += nbytes
        here = self.side[group]
        self._tally(group, here, -1)
        self.side[group] = 1 - here
        self._tally(group, 1 - here, 1)

    def flip_all(self, groups: Iterable[int]) -> None:
        for group in groups:
            self.flip(group)
