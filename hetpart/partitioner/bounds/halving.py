"""A program whose ops run in stages, bounded by halves of it: cheap relaxations where HiGHS takes few dear nodes.

What is relaxed mixes a few whole placements, since the budget is the one thing that ties ops together. Turning one op
of many alike leaves another such mixture, as turning one expert of a layer does, or one layer of a transformer. Two
questions split them: whether an op has come to a stage, which settles all that lead to it or all that follow; and how
many of the groups with weights of about one size are on the accelerator. Each is asked where it raises the bound most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.moments import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.milp import LinearProgram
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import Placement

RELAXED_ROWS = 1_000_000
"""Rows relaxed, all together."""
TRIED = 0.15
"""Of them; then, and from then on, a bound that would not get there at the pace so far is left."""
MOST_OPS = 2000
"""Up to which a program is halved: which op leads to which is written down for all pairs."""
WHOLE = 1e-3
"""How near to 0 or 1, or to a whole number, what is relaxed counts as that."""
ALIKE = 1.02
"""Sizes that follow each other in less than this ratio are about one."""
TELLING = 2e-3
"""Of the budget: smaller weights are not counted."""
SECOND = 1e-3
"""What the better half counts beside the worse one."""


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """Some of a program's solutions."""

    bound: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    relaxed: NDArray[np.float64] | None
    """The solution that ``bound`` is of; None where there is none."""


@dataclass(slots=True, eq=False)
class Halving:
    """What is halved."""

    linear: LinearProgram
    program: Program
    begun: NDArray[np.int64]
    """(N, S) Variables that are 1 where an op has come to a stage: they never fall along an edge."""
    leads: NDArray[np.float64]
    """(N, N) 1 where the second op leads to the first, or is it."""
    weight: NDArray[np.float64]
    """(N,) How much an op matters: its share of all seconds and bytes."""
    sums: tuple[tuple[int, int], ...]
    """(variable, bytes of each) of how many groups of about one size are on the accelerator."""
    met: list[Placement] = field(default_factory=list["Placement"])
    """What relaxed solutions are nearest to."""

    @classmethod
    def of(cls, program: Program, rows: Moments, sides: NDArray[np.int8]) -> Halving:
        """Of ``rows`` that know the stages of each op, groups being on ``sides`` for certain."""
        linear = program.linear(rows.rows, rows.extra, sides, program.budget, rows.whole).relaxed()
        linear, sums = _with_sums(program, linear)
        seconds, nbytes = np.abs(program.seconds), program.nbytes.astype(np.float64)
        share = seconds / (seconds.sum() or 1.0) + nbytes / (nbytes.sum() or 1.0)
        share /= np.maximum(np.bincount(program.of_op, minlength=len(share)), 1)
        ops = program.problem.ops
        begun = np.array(rows.stages, np.int64)
        return cls(linear, program, begun, _leads(program), share[program.of_op] + WHOLE / ops, sums)

    def raised(self, enough: float, expired: Callable[[], bool]) -> float:
        """A bound on all solutions, raised until it is ``enough`` or the relaxations are many."""
        most, used = max(1, RELAXED_ROWS // max(1, len(self.linear.rows.least))), 0
        number = count()
        whole = self._bounded(-np.inf, self.linear.lower, self.linear.upper)
        open_ = [(whole.bound, next(number), whole)]
        while open_[0][0] < enough and not expired():
            risen = (open_[0][0] - whole.bound) / (enough - whole.bound)
            if used >= most * max(TRIED, risen):
                break
            _, _, half = heappop(open_)
            pairs = list[tuple[Half, Half]]()
            for question in self._questions(half):
                pairs.append((self._bounded(half.bound, *question[0]), self._bounded(half.bound, *question[1])))
                used += 2
                if min(one.bound for one in pairs[-1]) >= enough:
                    break
            if not pairs:
                return half.bound
            for one in max(pairs, key=lambda pair: _told(pair, enough)):
                heappush(open_, (one.bound, next(number), one))
        return open_[0][0]

    def _bounded(self, least: float, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> Half:
        if (lower > upper).any():
            return Half(np.inf, lower, upper, None)
        found = replace(self.linear, lower=lower, upper=upper).solve(Effort(WHOLE, 1, np.inf))
        if found.solution is not None:
            self.met.append(self.program.placement(found.solution))
        return Half(max(least, found.bound), lower, upper, found.solution)

    def _questions(self, half: Half) -> Iterator[tuple[Bounds, Bounds]]:
        """Variables' bounds for either answer."""
        if half.relaxed is None:
            return
        come = np.clip(half.relaxed[self.begun], 0.0, 1.0)
        unsure = (come > WHOLE) & (come < 1.0 - WHOLE)
        if unsure.any():
            yield self._stage(half, come, unsure)
        parts = [(min(part, 1.0 - part) * nbytes, variable) for variable, nbytes, part in self._parts(half.relaxed)]
        if parts:
            yield self._number(half, max(parts)[1])

    def _stage(self, half: Half, come: NDArray[np.float64], unsure: NDArray[np.bool_]) -> tuple[Bounds, Bounds]:
        """Of an op that has come to a stage in part: no more than those that lead to it, or all that follow."""
        changed_before = self.leads @ (self.weight[:, None] * come)
        changed_behind = self.leads.T @ (self.weight[:, None] * (1.0 - come))
        most = np.where(unsure, np.minimum(changed_before, changed_behind), -1.0).argmax()
        op, stage = divmod(int(most), come.shape[1])
        lower, upper = half.lower.copy(), half.upper.copy()
        upper[self.begun[self.leads[op] > 0, stage:]] = 0.0
        lower[self.begun[self.leads[:, op] > 0, : stage + 1]] = 1.0
        return (half.lower, upper), (lower, half.upper)

    def _parts(self, relaxed: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
        for variable, nbytes in self.sums:
            part = float(relaxed[variable]) % 1.0
            if WHOLE < part < 1.0 - WHOLE:
                yield variable, nbytes, part

    def _number(self, half: Half, variable: int) -> tuple[Bounds, Bounds]:
        assert half.relaxed is not None
        lower, upper = half.lower.copy(), half.upper.copy()
        upper[variable] = np.floor(half.relaxed[variable])
        lower[variable] = upper[variable] + 1.0
        return (half.lower, upper), (lower, half.upper)


Bounds = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""Of all variables: lower and upper."""


def _told(pair: tuple[Half, Half], enough: float) -> float:
    worse, better = sorted(min(half.bound, enough) for half in pair)
    return worse + SECOND * better


def _with_sums(program: Program, linear: LinearProgram) -> tuple[LinearProgram, tuple[tuple[int, int], ...]]:
    """``linear`` with a variable for how many there are on the accelerator of each size of weights."""
    weights = [(int(program.nbytes[group]), group) for group in range(program.groups)]
    weights += [(cover.nbytes, cover.variable) for cover in program.covers]
    rows, sums, sizes = linear.rows.copy(), list[tuple[int, int]](), list[int]()
    for alike in _alike([one for one in sorted(weights) if one[0] > TELLING * program.budget]):
        variable = len(linear.costs) + len(sums)
        for sign in (1.0, -1.0):
            rows.add([(variable, sign), *((one, -sign) for _, one in alike)], 0.0)
        sums.append((variable, alike[0][0]))
        sizes.append(len(alike))
    none = np.zeros(len(sums))
    found = replace(
        linear,
        costs=np.concatenate([linear.costs, none]),
        lower=np.concatenate([linear.lower, none]),
        upper=np.concatenate([linear.upper, np.array(sizes, np.float64)]),
        integral=np.concatenate([linear.integral, none > 0]),
        rows=rows,
    )
    return found, tuple(sums)


def _alike(weights: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Those of about one size, of sorted (bytes, variable), where there are several."""
    ends = [place for place, (one, other) in enumerate(pairwise(weights), 1) if other[0] >= ALIKE * one[0]]
    for start, end in pairwise([0, *ends, len(weights)]):
        if end - start > 1:
            yield weights[start:end]


def _leads(program: Program) -> NDArray[np.float64]:
    ops = program.problem.ops
    width = (ops + 7) // 8
    before = b"".join(
        (bits | 1 << op).to_bytes(width, "little") for op, bits in enumerate(Reach.of(program.problem).ancestors)
    )
    rows = np.frombuffer(before, np.uint8).reshape(ops, width)
    return np.unpackbits(rows, axis=1, count=ops, bitorder="little").astype(np.float64)
