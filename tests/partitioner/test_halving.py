"""Programs of one partition bounded by halves, beside every placement and beside the whole program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from hetpart.partitioner.bounds import halving
from hetpart.partitioner.bounds.branches import branch_between, branch_of
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.halving import Halving
from hetpart.partitioner.bounds.milp import LinearProgram
from hetpart.partitioner.bounds.program import NOBODY, Program
from hetpart.partitioner.bounds.staged import staged
from hetpart.partitioner.problem import Placement, PlacementProblem
from tests.partitioner.problems import chain
from tests.partitioner.test_staged import EXACT, ROUNDING, cheapest, sample

HIGHS = 1e-5
"""What a bound that HiGHS tells is lowered by for its tolerances; theirs is computed anew and is not."""


def halves_of(problem: PlacementProblem, partitions: int = 1) -> Halving | None:
    branch = branch_of(problem, partitions)
    if branch is None:
        return None
    program = Program.of(branch.problem)
    return Halving.of(program, staged(partitions)(program), np.full(program.groups, NOBODY, np.int8))


def in_stages(problem: PlacementProblem, partitions: int) -> LinearProgram | None:
    """The whole program: every op has come to a stage or not."""
    branch = branch_of(problem, partitions)
    if branch is None:
        return None
    program = Program.of(branch.problem)
    rows = staged(partitions)(program)
    whole = tuple(variable for stages in rows.stages for variable in stages)
    return program.linear(rows.rows, rows.extra, None, program.budget, whole)


AMPLE = Clock.of(1e6)


@dataclass(eq=False)
class Looked:
    """What relaxed solutions are nearest to; better ones are never known."""

    met: list[Placement] = field(default_factory=list[Placement])

    def at(self, placement: Placement) -> float:
        self.met.append(placement)
        return np.inf


def raised(halves: Halving, enough: float) -> tuple[float, list[Placement]]:
    looked = Looked()
    return halves.raised(enough, AMPLE, looked.at), looked.met


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("start", range(0, 160, 80))
def test_halves_lose_no_placement_and_say_nearly_as_much_as_the_whole_program(start: int, partitions: int) -> None:
    checked = nearer = equal = 0
    for seed in range(start, start + 80):
        problem = sample(seed)
        best = min((cost for number, cost in cheapest(problem).items() if number == partitions), default=None)
        program, halves = in_stages(problem, partitions), halves_of(problem, partitions)
        if best is None or program is None or halves is None:
            continue
        whole, relaxed, found = (
            program.solve(EXACT).bound,
            program.relaxed().solve(EXACT).bound,
            raised(halves, np.inf)[0],
        )
        assert relaxed - 1e-6 <= found <= whole + HIGHS, seed
        assert found <= best * (1 + ROUNDING) + ROUNDING, seed
        checked += 1
        nearer += found > relaxed + 1e-3
        equal += found == pytest.approx(whole, abs=1e-3)
    assert checked >= 20
    assert nearer > 2
    assert equal == checked


def experts(count: int) -> PlacementProblem:
    """Ops side by side that are all alike, between two that are free; the budget takes some and a part of one."""
    problem = chain([(1.0, 1.0), *[(9.0, 1.0)] * count, (1.0, 1.0)], [0, *[100] * count, 0], nbytes=1)
    uses = [[(op, False) for op in range(1, count + 1)], *[[(count + 1, False)]] * count, []]
    uses = type(problem.value_uses).from_rows(uses)
    problem = replace(problem, value_uses=uses, session_bytes=np.array([0, 10]))
    return replace(problem, budgets=np.array([-1, 10 + 100 * (count // 2) + 70]))


def test_ops_that_are_alike_are_counted() -> None:
    """One question settles what no order of turning them does."""
    halves = halves_of(experts(8))
    assert halves is not None
    best = cheapest(experts(8))[1]
    relaxed = halves.linear.solve(EXACT).bound
    assert relaxed < best - 4.0
    bound, met = raised(halves, best * 0.99)
    assert bound >= best * 0.99
    assert len(met) < 24


def test_what_would_not_get_there_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = halves_of(experts(8))
    assert halves is not None
    monkeypatch.setattr(halving, "MOST_WORK", 500 * len(halves.linear.rows.least))
    found, met = raised(halves, 1000.0)
    assert halves.linear.solve(EXACT).bound - 1e-6 <= found <= cheapest(experts(8))[1] + 1e-6
    assert len(met) < 40


def test_what_is_known_by_now_is_enough() -> None:
    """A placement that is met ends the halving where no other is better by what is asked for."""
    halves = halves_of(experts(8))
    assert halves is not None
    best = cheapest(experts(8))[1]
    seen = list[Placement]()

    def look(placement: Placement) -> float:
        seen.append(placement)
        return best * 0.8 if len(seen) > 1 else np.inf

    assert best * 0.8 <= halves.raised(np.inf, AMPLE, look) <= best * (1 + ROUNDING)
    assert len(seen) == 2 < len(raised(halves, np.inf)[1])


@pytest.mark.parametrize("seed", range(40))
def test_pieces_beside_sessions_are_whole(seed: int) -> None:
    """Rows that count sessions have no stages: halved by what is whole, they lose no placement either."""
    problem = sample(seed)
    best = min((cost for number, cost in cheapest(problem).items() if number == 2), default=None)
    branch = branch_between(problem, 2, 2)
    if best is None or branch is None:
        return
    program = Program.of(branch.problem)
    moments = branch.rows(program)
    halves = Halving.of(program, moments, np.full(program.groups, NOBODY, np.int8))
    relaxed = halves.linear.solve(EXACT).bound
    assert relaxed - HIGHS <= raised(halves, np.inf)[0] <= best * (1 + ROUNDING) + ROUNDING
