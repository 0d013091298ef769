"""Sessions that are cut finer, beside every cut of every placement of small problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from hetpart.errors import InfeasibleError
from hetpart.partitioner.bounds import by_number
from hetpart.partitioner.bounds.branches import branch_between
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, WHERE_USED, Placement, PlacementProblem, States
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import Cut, cut
from hetpart.partitioner.scores.finer import Finer, may_be_cut_finer
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.partitioner.search.solve import solve
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import placements, random_problem, with_calls

EXACT = Effort(0.0, 10_000, 60.0)
ROUNDING = 1e-9
GOOD = 0.05
ACCELERATOR = 1


def sample(seed: int, most_ops: int) -> PlacementProblem:
    """Ops that run apart keep states, and there is hardly room."""
    problem = with_calls(random_problem(seed, most_ops=most_ops), seed)
    total = int(problem.value_bytes.sum() + problem.weight_bytes.sum())
    limits = np.array([NO_BUDGET, int((0.2, 0.35, 0.5, 0.7)[seed % 4] * total)])
    return replace(problem, budgets=limits, session_bytes=np.array([0, 7 * (seed % 3)]))


def samples(count: int, most_ops: int) -> list[tuple[int, PlacementProblem]]:
    found = ((seed, sample(seed, most_ops)) for seed in range(100 * count))
    return [(seed, problem) for seed, problem in found if may_be_cut_finer(problem)][:count]


def step(layers: int, *, gradient: int, state: int, budget: int, session: int = 0) -> PlacementProblem:
    """Layers one after another, each with a gradient of its state that an op apart reads, all behind the last layer.

    Ops are the products, then the updates, which keep the states; those are read by their layers.
    """
    ops = 2 * layers
    makers = [*range(layers), *range(layers), *[NO_OP] * layers]
    rows = [[layer + 1] if layer + 1 < layers else [] for layer in range(layers)]
    rows += [[layers + layer] for layer in range(layers)]
    rows += [[layer, layers + layer] for layer in range(layers)]
    sizes = [1] * layers + [gradient] * layers + [0] * layers
    keeper = [NO_OP] * (2 * layers) + [layers + layer for layer in range(layers)]
    return PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=np.array([[9.0] * ops, [1.0] * ops]),
        groups=np.arange(ops, dtype=np.int32),
        scratch_bytes=np.zeros(ops, np.int64),
        value_producer=np.array(makers, np.int32),
        value_left_on_host=np.zeros(3 * layers, np.bool_),
        value_returned=np.zeros(3 * layers, np.bool_),
        value_bytes=np.array(sizes),
        value_uses=Uses.from_rows([[(op, False) for op in row] for row in rows]),
        copy_seconds=np.full((2, 2, 3 * layers), 5.0) * (1 - np.eye(2))[:, :, None],
        weight_bytes=np.full(layers, state),
        weight_uses=Uses.from_rows([[(layers + layer, False)] for layer in range(layers)]),
        budgets=np.array([NO_BUDGET, budget]),
        session_seconds=np.zeros(2),
        session_bytes=np.array([0, session]),
        value_kept=np.array([0] * (2 * layers) + [WHERE_USED] * layers, np.int8),
        states=States(np.array(keeper, np.int32), np.array([0] * (2 * layers) + [state] * layers)),
        apart=np.arange(ops) >= layers,
    )


def drawn_step(seed: int, most_layers: int) -> PlacementProblem:
    """A step of layers that also read what others made, with a budget between what states take and what all takes."""
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(2, most_layers + 1))
    problem = step(layers, gradient=100, state=20, budget=0, session=int(rng.choice([0, 5, 25])))
    uses = problem.value_uses
    rows = [[(int(op), False) for op in uses.ops[a:b]] for a, b in pairwise(uses.offsets.tolist())]
    for value in range(layers - 1):
        rows[value] += [(int(op), False) for op in range(value + 2, layers) if rng.random() < 0.3]
    for layer in range(layers):
        if layer + 1 < layers and rng.random() < 0.3:
            rows[2 * layers + layer].insert(1, (layer + 1, False))
    copy = rng.choice([0.0, 1.0, 6.0], 3 * layers) * rng.random(3 * layers)
    sizes = np.where(problem.value_bytes > 0, rng.integers(1, 100, 3 * layers), 0)
    least = int(problem.weight_bytes.sum())
    return replace(
        problem,
        seconds=rng.random((2, 2 * layers)) * [[9.0], [3.0]],
        value_bytes=sizes,
        value_uses=Uses.from_rows(rows),
        copy_seconds=np.broadcast_to(copy, (2, 2, 3 * layers)) * (1 - np.eye(2))[:, :, None],
        budgets=np.array([NO_BUDGET, least + int(rng.random() * sizes.sum())]),
    )


def every_cut(problem: PlacementProblem, placement: Placement) -> Iterator[Cut]:
    """All ways to run it: partitions of one device, of ops that run apart or of others, none needed before it runs."""
    uses = problem.value_uses
    made = problem.value_producer[uses.rows] != NO_OP
    before, after = problem.value_producer[uses.rows][made], uses.ops[made]
    numbers = np.array(list(product(range(problem.ops), repeat=problem.ops)), np.int32)
    numbers = numbers[(numbers[:, before] <= numbers[:, after]).all(axis=1)]
    kinds = placement + (0 if problem.apart is None else 2 * problem.apart)
    one, other = np.nonzero(kinds[:, None] < kinds[None, :])
    numbers = numbers[(numbers[:, one] != numbers[:, other]).all(axis=1)]
    distinct = 1 + (np.diff(np.sort(numbers, axis=1), axis=1) > 0).sum(axis=1)
    for partition in numbers[numbers.max(axis=1) + 1 == distinct]:
        devices = np.zeros(int(partition.max()) + 1, np.int8)
        devices[partition] = placement
        yield Cut(partition, devices)


def best_of_all(problem: PlacementProblem) -> float:
    """The least cost of what fits in any cut."""
    for placement in sorted(placements(problem), key=problem.cost):
        if any(usage(problem, placement, found).fits(problem) for found in every_cut(problem, placement)):
            return problem.cost(placement)
    return np.inf


@pytest.mark.parametrize("half", range(2))
def test_no_cut_of_any_placement_is_below_the_bound(half: int) -> None:
    drawn = [(seed, drawn_step(seed, 3)) for seed in range(16)]
    solved = proven = 0
    for seed, problem in [*samples(12, 5), *drawn][half::2]:
        best = best_of_all(problem)
        try:
            found = solve(problem)
        except InfeasibleError:
            continue
        assert found.lower_bound <= best * (1 + ROUNDING) + ROUNDING, seed
        assert best <= found.cost * (1 + ROUNDING) + ROUNDING, seed
        solved += 1
        proven += found.gap < GOOD
    assert solved > 6, solved
    assert proven > solved // 2, (proven, solved)


def test_what_sessions_hand_over_is_beside_some_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every number of sessions the bound is below the cheapest of all cuts, and nearer than without the row."""
    counted = raised = 0
    for seed in range(10):
        problem = drawn_step(seed, 3)
        for number, best in cheapest(problem).items():
            whole = bound(problem, number)
            assert whole <= best * (1 + ROUNDING) + ROUNDING, (seed, number)
            with monkeypatch.context() as without:
                without.setattr(by_number, "handed_on", nothing_handed_on)
                raised += bound(problem, number) < whole - 1e-3
            counted += 1
    assert counted > 8, counted
    assert raised > 1, raised


def test_values_beside_sessions_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three gradients of 100 bytes: of two sessions one hands over 200, where a half of their bytes were 150."""
    problem = step(3, gradient=100, state=15, budget=45 + 2 * 20 + 170, session=20)
    best, whole = cheapest(problem)[2], bound(problem, 2)
    monkeypatch.setattr(by_number, "MOST_SIZES", 0)
    assert bound(problem, 2) < whole - 1.0
    assert problem.seconds[ACCELERATOR].sum() + 1.0 < whole <= best * (1 + ROUNDING)


def nothing_handed_on(problem: PlacementProblem) -> NDArray[np.bool_]:
    return np.zeros(problem.values, np.bool_)


def cheapest(problem: PlacementProblem) -> dict[int, float]:
    """Of what fits in any cut, by how many sessions that has on the accelerator."""
    found = dict[int, float]()
    for placement in placements(problem):
        for made in every_cut(problem, placement):
            there = (placement == ACCELERATOR) & problem.in_sessions
            number, cost = len({*made.partition[there].tolist()}), problem.cost(placement)
            if number and cost < found.get(number, np.inf) and usage(problem, placement, made).fits(problem):
                found[number] = cost
    return found


def bound(problem: PlacementProblem, number: int) -> float:
    branch = branch_between(problem, number, number)
    assert branch is not None
    program = Program.of(branch.problem)
    rows = branch.rows(program)
    return program.linear(rows.rows, rows.extra, None, program.budget, rows.whole).solve(EXACT).bound


def test_finer_cuts_are_legal_and_hold_what_is_said() -> None:
    tried = helped = 0
    for seed, problem in [*samples(14, 6), *((seed, drawn_step(seed, 4)) for seed in range(16))]:
        scorer = Scorer.of(problem)
        for placement in placements(problem):
            coarse, scored = cut(problem, placement), scorer.score(placement)
            used, verdict = usage(problem, placement, coarse), check(problem, placement, scored.cut)
            assert verdict.legal, (seed, verdict.violations)
            assert list(verdict.peaks) == scored.usage.peak.tolist(), seed
            assert verdict.fits == scored.fits
            assert scored.fits or not used.fits(problem)
            tried += scored.cut.partitions != coarse.partitions
            helped += scored.fits and not used.fits(problem)
    assert tried >= helped > 50, (tried, helped)


def test_a_state_is_written_over_when_all_have_read_it() -> None:
    """Layer 1 reads state 0 too, which nothing but the order of ops says to come before the update."""
    problem = step(4, gradient=100, state=10, budget=280)
    uses = problem.value_uses
    rows = [[(int(op), False) for op in uses.ops[a:b]] for a, b in zip(uses.offsets, uses.offsets[1:], strict=False)]
    rows[8] = [(0, False), (1, False), (4, False)]
    problem = replace(problem, value_uses=Uses.from_rows(rows))
    scorer, everything = Scorer.of(problem), np.ones(8, np.int8)
    found = scorer.score(everything).cut
    assert found.partitions > cut(problem, everything).partitions
    assert (found.partition[4:] > found.partition[:4]).all()
    assert found.partition[4] > found.partition[1]


@pytest.mark.parametrize(("budget", "sessions"), [(1000, 1), (450, 2), (300, 4)])
def test_a_session_has_as_few_pieces_as_its_budget_asks_for(budget: int, sessions: int) -> None:
    """Four gradients of 100 bytes beside 60 bytes of states, and 20 for every session."""
    problem = step(4, gradient=100, state=15, budget=budget, session=20)
    found = solve(problem)
    assert found.placement.all()
    assert found.usage.sessions[ACCELERATOR] == 20 * sessions
    assert found.gap == pytest.approx(0.0, abs=1e-9)
    assert check(problem, found.placement, found.cut).fits


def test_what_does_not_run_apart_is_never_cut_finer() -> None:
    problem = step(4, gradient=100, state=10, budget=160)
    assert may_be_cut_finer(problem)
    assert Finer.of(replace(problem, apart=None)) is None
    assert Finer.of(replace(problem, states=None)) is None
