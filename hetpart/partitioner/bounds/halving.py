"""A program bounded by halves of it: cheap relaxations where HiGHS takes few dear nodes.

What is relaxed mixes a few whole placements, since the budget is the one thing that ties ops together. Turning one op
of many alike leaves another such mixture, as turning one expert of a layer does, or one layer of a transformer. Other
questions split them: where ops run in stages, whether an op has come to one, which settles all that lead to it or all
that follow; how many of the groups with weights of about one size are on the accelerator; and how many equal pieces lie
beside a session. That one is asked that raises the bound most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.moments import Reach
from hetpart.partitioner.bounds.relaxations import Relaxations, Relaxed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.clock import Clock
    from hetpart.partitioner.bounds.milp import LinearProgram
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import Placement

MOST_WORK = 500_000_000
"""Steps times rows of all that is halved."""
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
    relaxed: Relaxed
    """The solution that ``bound`` is of, where there is one."""


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
    wholes: NDArray[np.int64]
    """Other variables that are 0 or 1; none where there are stages, which settle what others are."""

    @classmethod
    def of(cls, program: Program, rows: Moments, sides: NDArray[np.int8]) -> Halving:
        """Of ``rows``, which may know the stages of each op, groups being on ``sides`` for certain."""
        linear = program.linear(rows.rows, rows.extra, sides, program.budget, rows.whole).relaxed()
        linear, sums = _with_sums(program, linear)
        seconds, nbytes = np.abs(program.seconds), program.nbytes.astype(np.float64)
        share = seconds / (seconds.sum() or 1.0) + nbytes / (nbytes.sum() or 1.0)
        share /= np.maximum(np.bincount(program.of_op, minlength=len(share)), 1)
        ops = program.problem.ops
        begun = np.array(rows.stages, np.int64)
        leads = _leads(program) if rows.stages else np.zeros((0, 0))
        wholes = np.array(() if rows.stages else rows.whole, np.int64)
        return cls(linear, program, begun, leads, share[program.of_op] + WHOLE / ops, sums, wholes)

    def raised(self, enough: float, clock: Clock, look: Callable[[Placement], float]) -> float:
        """A bound on all solutions, raised until it is enough or much is done.

        Args:
            enough: No more is asked for.
            clock: When it is up, no more is relaxed.
            look: Is shown what a relaxed solution is nearest to, and says what is enough from then on.
        """
        tree = _Tree(self, Relaxations.of(self.linear), enough, look, clock)
        whole = tree.bounded(self.linear.lower, self.linear.upper)
        tree.open.append((whole.bound, 0, whole))
        tree.plunge(whole)
        plunged = tree.relaxations.work
        while tree.bound < tree.enough and not clock.expired():
            risen = (tree.bound - whole.bound) / (tree.enough - whole.bound)
            if tree.relaxations.work - plunged >= MOST_WORK * max(TRIED, risen) or not tree.halve():
                break
        return tree.bound

    def questions(self, half: Half) -> Iterator[tuple[Bounds, Bounds]]:
        """Variables' bounds for either answer, the one that the solution is nearer to first."""
        solution = half.relaxed.solution
        if solution is None:
            return
        come = np.clip(solution[self.begun], 0.0, 1.0)
        unsure = (come > WHOLE) & (come < 1.0 - WHOLE)
        if unsure.any():
            yield self._stage(half, come, unsure)
        parts = [(min(part, 1.0 - part) * nbytes, variable) for variable, nbytes, part in self._parts(solution)]
        if parts:
            variable = max(parts)[1]
            yield self._number(half, variable, float(solution[variable]))
        unsure = np.minimum(solution[self.wholes], 1.0 - solution[self.wholes])
        if unsure.max(initial=0.0) > WHOLE:
            variable = int(self.wholes[unsure.argmax()])
            yield self._number(half, variable, float(solution[variable]))

    def _stage(self, half: Half, come: NDArray[np.float64], unsure: NDArray[np.bool_]) -> tuple[Bounds, Bounds]:
        """Of an op that has come to a stage in part: no more than those that lead to it, or all that follow."""
        changed_before = self.leads @ (self.weight[:, None] * come)
        changed_behind = self.leads.T @ (self.weight[:, None] * (1.0 - come))
        most = np.where(unsure, np.minimum(changed_before, changed_behind), -1.0).argmax()
        op, stage = divmod(int(most), come.shape[1])
        lower, upper = half.lower.copy(), half.upper.copy()
        upper[self.begun[self.leads[op] > 0, stage:]] = 0.0
        lower[self.begun[self.leads[:, op] > 0, : stage + 1]] = 1.0
        not_come, has_come = (half.lower, upper), (lower, half.upper)
        return (has_come, not_come) if come[op, stage] > 0.5 else (not_come, has_come)

    def _parts(self, relaxed: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
        for variable, nbytes in self.sums:
            part = float(relaxed[variable]) % 1.0
            if WHOLE < part < 1.0 - WHOLE:
                yield variable, nbytes, part

    def _number(self, half: Half, variable: int, number: float) -> tuple[Bounds, Bounds]:
        lower, upper = half.lower.copy(), half.upper.copy()
        upper[variable] = np.floor(number)
        lower[variable] = upper[variable] + 1.0
        fewer, more = (half.lower, upper), (lower, half.upper)
        return (more, fewer) if number % 1.0 > 0.5 else (fewer, more)


@dataclass(slots=True, eq=False)
class _Tree:
    """Halves of halves."""

    halving: Halving
    relaxations: Relaxations
    enough: float
    look: Callable[[Placement], float]
    clock: Clock
    open: list[tuple[float, int, Half]] = field(default_factory=list[tuple[float, int, "Half"]])
    """Those that are not halved yet: a heap, the least bound first, older ones before younger."""
    number: count[int] = field(default_factory=lambda: count(1))

    @property
    def bound(self) -> float:
        """Of all: there is always one left."""
        return self.open[0][0]

    def plunge(self, half: Half) -> None:
        """To something whole by what is nearer each time, for the sake of what that places."""
        most = self.relaxations.work + TRIED * MOST_WORK
        while half.bound < self.enough and self.relaxations.work < most and not self.clock.expired():
            question = next(self.halving.questions(half), None)
            if question is None:
                break
            found = self.bounded(*question[0], half)
            half = found if found.bound < self.enough else self.bounded(*question[1], half)

    def halve(self) -> bool:
        """Whether the half with the least bound could be halved."""
        pair = self._pair(self.open[0][2])
        if pair is not None:
            heappop(self.open)
            for one in pair:
                self._leave(one)
        return pair is not None

    def bounded(self, lower: NDArray[np.float64], upper: NDArray[np.float64], of: Half | None = None) -> Half:
        """What is left of ``of`` within these bounds."""
        if (lower > upper).any():
            return Half(np.inf, lower, upper, Relaxed(np.inf, None, None))
        found = self.relaxations.solved(
            lower, upper, self.enough, None if of is None else of.relaxed.end, self.clock.left
        )
        if found.solution is not None:
            self.enough = min(self.enough, self.look(self.halving.program.placement(found.solution)))
        return Half(found.bound if of is None else max(of.bound, found.bound), lower, upper, found)

    def _pair(self, half: Half) -> tuple[Half, Half] | None:
        """Its halves by the question that raises their bounds most."""
        pairs = list[tuple[Half, Half]]()
        for one, other in self.halving.questions(half):
            pairs.append((self.bounded(*one, half), self.bounded(*other, half)))
            if min(found.bound for found in pairs[-1]) >= self.enough:
                break
        return max(pairs, key=lambda pair: _told(pair, self.enough)) if pairs else None

    def _leave(self, half: Half) -> None:
        heappush(self.open, (half.bound, next(self.number), half))


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
