"""Which ops fill the accelerator, at its peak and at every other moment that breaks the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.liveness import Buffers, Inside, buffers, crossing_values, inside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.scoring import Scored


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """A moment at which the accelerator holds more than its budget."""

    excess: int
    of_op: NDArray[np.int64]
    """(N,) Bytes, weights left out, that would go with each op."""


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """Everything the accelerator holds over one run, weights left out."""

    problem: PlacementProblem
    scored: Scored
    held: Buffers
    inner: Inside
    live: NDArray[np.int64]
    """(P + 1,) Bytes of buffers at every step."""
    within: NDArray[np.int64]
    """(P,) Most bytes inside every partition; 0 for those of other devices."""

    @classmethod
    def of(cls, problem: PlacementProblem, scored: Scored) -> Peaks:
        crossing = crossing_values(problem, scored.cut)
        held = buffers(problem, scored.placement, scored.cut, crossing)
        inner = inside(problem, scored.cut, crossing)
        live = held.live(len(problem.devices), scored.cut.partitions)[ACCELERATOR]
        within = np.where(scored.cut.devices == ACCELERATOR, scored.usage.inside_partition, 0)
        return cls(problem, scored, held, inner, live, within)

    @property
    def at_peak(self) -> NDArray[np.int64]:
        """(N,) Bytes that would go with each op where most is held: the fullest step and the fullest partition."""
        return self.buffered(int(self.live.argmax())) + self.inside(
            int(self.within.argmax()) if len(self.within) else 0
        )

    def overloads(self, most: int) -> list[Overload]:
        """The worst moments over the budget: steps beside the fullest partition, partitions beside the fullest step."""
        over = int(self.scored.usage.peak[ACCELERATOR] - self.problem.budgets[ACCELERATOR])
        steps, partitions = _down_to(self.live, over, most), _down_to(self.within, over, most)
        if not steps or not partitions:
            return []
        buffered, within = self.buffered(steps[0]), self.inside(partitions[0])
        found = [Overload(over - _below(self.live, step), self.buffered(step) + within) for step in steps]
        found += [
            Overload(over - _below(self.within, partition), buffered + self.inside(partition))
            for partition in partitions[1:]
        ]
        return sorted(found, key=lambda overload: -overload.excess)

    def buffered(self, step: int) -> NDArray[np.int64]:
        """(N,) A buffer goes with the op that makes its value there, or is shared by those it was copied there for."""
        problem, scored, held = self.problem, self.scored, self.held
        there = (held.device == ACCELERATOR) & (held.first <= step) & (step <= held.last)
        alive = np.zeros(problem.values, np.bool_)
        alive[held.value[there]] = True
        alive &= ~problem.given_there  # they go with no op
        made_there = problem.home(scored.placement) == ACCELERATOR
        of_op = np.zeros(problem.ops, np.int64)
        made = np.flatnonzero(alive & made_there)
        np.add.at(of_op, problem.value_producer[made], problem.value_bytes[made])
        uses = problem.value_uses
        copied = (alive & ~made_there)[uses.rows] & ~uses.on_host & (scored.placement[uses.ops] == ACCELERATOR)
        readers = np.bincount(uses.rows[copied], minlength=problem.values)
        np.add.at(of_op, uses.ops[copied], (problem.copied_bytes // np.maximum(readers, 1))[uses.rows[copied]])
        return of_op

    def inside(self, partition: int) -> NDArray[np.int64]:
        """(N,) What is alive in a partition at its fullest goes with the ops that made it."""
        problem, held = self.problem, self.inner
        of_op = np.zeros(problem.ops, np.int64)
        if not len(self.within) or not self.within[partition]:
            return of_op
        end = held.starts[partition + 1] if partition + 1 < len(held.starts) else problem.ops
        position = int(held.starts[partition] + held.alive[held.starts[partition] : end].argmax())
        alive = held.value[(held.first <= position) & (position <= held.last)]
        np.add.at(of_op, problem.value_producer[alive], problem.value_bytes[alive])
        of_op[held.order[position]] += problem.scratch_bytes[held.order[position]]
        return of_op


def _below(bytes_at: NDArray[np.int64], moment: int) -> int:
    return int(bytes_at.max() - bytes_at[moment])


def _down_to(bytes_at: NDArray[np.int64], over: int, most: int) -> list[int]:
    """Moments less than ``over`` below the fullest, the fullest first, one of neighbours that are equally full."""
    order: list[int] = np.argsort(-bytes_at, kind="stable").tolist()
    worst = [moment for moment in order if _below(bytes_at, moment) < over or moment == order[0]]
    distinct = {int(bytes_at[moment]): moment for moment in reversed(worst)}
    return sorted(distinct.values(), key=lambda moment: (-int(bytes_at[moment]), moment))[:most]
