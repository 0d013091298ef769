"""Problems with fewer ops, and what two ops of a session need, beside every placement."""

from __future__ import annotations

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.branches import branch_of
from hetpart.partitioner.bounds.coarse import coarsened
from hetpart.partitioner.bounds.needs import Needs
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements
from tests.partitioner.test_staged import EXACT, ROUNDING, cheapest


def sample(seed: int) -> PlacementProblem:
    """Ops that mostly read what the one before made; some of them weights, some what an earlier one made."""
    rng = np.random.default_rng(seed)
    ops = int(rng.integers(5, 9))
    users = [[(op + 1, False)] * bool(rng.random() < 0.9) for op in range(ops)]
    for op in range(2, ops):
        if rng.random() < 0.3:
            users[int(rng.integers(0, op - 1))].append((op, bool(rng.random() < 0.2)))
    seconds = rng.choice([1.0, 2.0, 5.0, 9.0], (2, ops)) * rng.random((2, ops))
    seconds[1, rng.random(ops) < 0.1] = np.inf
    copies = np.zeros((2, 2, ops))
    copies[0, 1], copies[1, 0] = rng.choice([0.0, 0.3, 1.0], (2, ops)) * rng.random((2, ops))
    weighty = np.flatnonzero(rng.random(ops) < 0.4)
    nbytes, weights = rng.integers(1, 100, ops), rng.integers(50, 300, len(weighty))
    overlaid = nbytes * (rng.random(ops) < 0.3) * (seed % 2)
    return PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=seconds,
        groups=np.where(rng.random(ops) < 0.2, rng.integers(0, ops, ops), np.arange(ops)).astype(np.int32),
        scratch_bytes=-overlaid,
        value_producer=np.arange(ops, dtype=np.int32),
        value_left_on_host=rng.random(ops) < 0.1,
        value_returned=(rng.random(ops) < 0.1) | (np.arange(ops) == ops - 1),
        value_bytes=nbytes,
        value_uses=Uses.from_rows([[use for use in row if use[0] < ops] for row in users]),
        copy_seconds=copies,
        weight_bytes=weights,
        weight_uses=Uses.from_rows([[(int(op), False)] for op in weighty]),
        budgets=np.array([NO_BUDGET, int((0.4, 0.7, 1.0)[seed % 3] * (nbytes.sum() + weights.sum()))]),
        session_seconds=np.zeros(2),
        session_bytes=np.array([0, 1 + 10 * (seed % 4)]),
    )


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_no_placement_is_dearer_where_ops_take_part_in_others(start: int) -> None:
    gone = 0
    for seed in range(start, start + 40):
        problem = sample(seed)
        coarse = coarsened(problem, np.inf)
        roots = np.array([np.flatnonzero(coarse.of_op == op)[0] for op in range(coarse.problem.ops)])
        gone += problem.ops - coarse.problem.ops
        for placement in placements(problem):
            smaller = placement[roots]
            assert coarse.problem.cost(smaller) <= problem.cost(placement) + ROUNDING, seed
            assert (coarse.problem.held_bytes(smaller) <= problem.held_bytes(placement)).all(), seed
    assert gone > 10


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_programs_of_smaller_problems_bound_every_placement(start: int) -> None:
    smaller = 0
    for seed in range(start, start + 40):
        problem = sample(seed)
        for partitions, best in cheapest(problem).items():
            branch = branch_of(problem, partitions) if partitions > 1 else None
            if branch is not None:
                coarse = coarsened(branch.problem, np.inf)
                program = Program.of(coarse.problem)
                rows = branch.rows(program)
                linear = program.linear(rows.rows, rows.extra, None, program.budget, rows.whole)
                assert linear.solve(EXACT).bound <= best * (1 + ROUNDING) + ROUNDING, seed
                smaller += coarse.problem.ops < problem.ops
    assert smaller > 3


def test_what_takes_part_loses_no_more_than_asked_for() -> None:
    """Eleven ops that read another and differ by 2, 3, 4, ... seconds."""
    problem = chain([(20.0 + op, 20.0) for op in range(1, 13)], [0] * 12, nbytes=10, budget=1000)
    for loss, ops in ((0.0, 12), (2.0, 11), (4.0, 11), (10.0, 9)):
        coarse = coarsened(problem, loss)
        assert coarse.problem.ops == ops, loss
        everywhere = np.zeros(ops, np.int8), np.zeros(12, np.int8)
        assert problem.cost(everywhere[1]) - coarse.problem.cost(everywhere[0]) <= loss


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_a_session_takes_no_less_than_two_of_its_ops_need_together(start: int) -> None:
    told = equal = 0
    for seed in range(start, start + 40):
        problem = sample(seed)
        needs = Needs.of(problem)
        pairs = [(a, b) for b in range(problem.ops) for a in range(b) if needs.reach.before(a, b)]
        for placement in placements(problem) if pairs else ():
            found = cut(problem, placement)
            used = usage(problem, placement, found)
            peak = int(used.peak[ACCELERATOR] - used.sessions[ACCELERATOR])
            for first, last in pairs:
                both = placement[first] == placement[last] == ACCELERATOR
                if both and found.partition[first] == found.partition[last]:
                    needed = needs.together(first, last)
                    assert needed <= peak, (seed, first, last)
                    told, equal = told + 1, equal + (needed == peak)
    assert told > 200
    assert equal > told // 100


def test_a_path_is_told_how_far_a_session_reaches() -> None:
    """Ops of weights of 100 one after another: a session has room for three and what they hand on."""
    problem = chain([(9.0, 1.0)] * 8, [100] * 8, nbytes=10, budget=330)
    needs = Needs.of(problem)
    assert needs.together(0, 2) == 320
    assert list(needs.too_long(problem)) == [(op, op + 3) for op in range(5)]
    assert problem.value_producer[0] != NO_OP
