"""What lies between partitions and inside them, in rows and in the cuts of every placement of small problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from hetpart.partitioner.bounds import branches, exact
from hetpart.partitioner.bounds.apart import Builder, between_and_inside
from hetpart.partitioner.bounds.by_sweep import by_sweep
from hetpart.partitioner.bounds.certain import Case, Certain, Sweep
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.moments import Alive, Moments, moments
from hetpart.partitioner.bounds.program import NOBODY, Program
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import Cut, both_cuts, cut, dependencies
from hetpart.partitioner.scores.liveness import buffers, crossing_values, usage
from hetpart.partitioner.search.solve import solve
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements, random_problem, with_calls

EXACT = Effort(0.0, 10_000, 60.0)
ACCELERATOR = 1


def woven(seed: int, ops: int) -> PlacementProblem:
    """A chain whose values are read again further on, faster on the accelerator but for some."""
    rng = np.random.default_rng(seed)
    problem = chain([(9.0, 1.0)] * ops, rng.integers(0, 20, ops).tolist())
    rows = [
        [
            op + 1,
            *rng.choice(np.arange(op + 2, ops), min(ops - op - 2, int(rng.random() < 0.4)), replace=False).tolist(),
        ]
        for op in range(ops - 1)
    ]
    fast, copy = rng.random(ops) < 0.7, rng.choice([0.0, 0.5, 2.0], ops) * rng.random(ops)
    copies = np.zeros((2, 2, ops))
    copies[0, 1] = copies[1, 0] = copy
    sizes = rng.integers(1, 100, ops)
    return replace(
        problem,
        seconds=np.where(fast, [[9.0], [1.0]], [[2.0], [3.0]]) * rng.random((2, ops)),
        value_uses=Uses.from_rows([*([(reader, False) for reader in sorted(row)] for row in rows), []]),
        value_bytes=sizes,
        copy_seconds=copies,
        budgets=np.array([NO_BUDGET, int((0.35, 0.5, 0.65)[seed % 3] * sizes.sum())]),
        apart=rng.random(ops) < 0.15 if seed % 4 == 0 else None,
    )


def activations_bind(seed: int, most_ops: int) -> PlacementProblem:
    """Few bytes of weights, and ops that are run apart in every fifth."""
    if seed % 2:
        return woven(seed, most_ops)
    problem = random_problem(seed, most_ops=most_ops)
    rng = np.random.default_rng(seed)
    problem = replace(
        problem,
        weight_bytes=problem.weight_bytes // 8,
        apart=rng.random(problem.ops) < 0.2 if seed % 5 == 0 else None,
    )
    total = int(problem.value_bytes.sum() + problem.weight_bytes.sum())
    problem = replace(problem, budgets=np.array([NO_BUDGET, int((0.15, 0.3, 0.5)[seed % 3] * total)]))
    return with_calls(problem, seed) if seed % 4 == 0 else problem


def bound(program: Program, rows: Moments, placement: Placement | None = None) -> float:
    sides = None
    if placement is not None:
        sides = np.full(program.groups, NOBODY, np.int8)
        sides[program.of_op] = placement
    return program.linear(rows.rows, rows.extra, sides, program.budget, rows.whole).solve(EXACT).bound


def rows_of(sweep: Sweep, program: Program) -> Moments:
    if sweep is Sweep.NEITHER:
        alive = Alive.of(program)
        return Builder(alive, Certain.of(alive, sweep)).build()
    return between_and_inside(program) if sweep is Sweep.EITHER else by_sweep(sweep)(program)


def cut_by(sweep: Sweep, problem: PlacementProblem, placement: Placement) -> Cut:
    along, against = both_cuts(problem, placement)
    finest = Cut(np.arange(problem.ops, dtype=np.int32), placement.astype(np.int8))
    either = cut(problem, placement)
    return {Sweep.ALONG: along, Sweep.AGAINST: against, Sweep.EITHER: either, Sweep.NEITHER: finest}[sweep]


def fitting(problem: PlacementProblem, sweep: Sweep = Sweep.EITHER) -> Iterator[Placement]:
    """All placements that fit, the cheapest first."""
    for placement in sorted(placements(problem), key=problem.cost):
        if usage(problem, placement, cut_by(sweep, problem, placement)).fits(problem):
            yield placement


def best_of(problem: PlacementProblem, sweep: Sweep = Sweep.EITHER) -> float:
    """The least cost of all that fit."""
    return next(map(problem.cost, fitting(problem, sweep)), np.inf)


@pytest.mark.parametrize("sweep", Sweep)
@pytest.mark.parametrize("start", range(0, 45, 15))
def test_every_placement_that_fits_keeps_the_rows_at_its_cost(start: int, sweep: Sweep) -> None:
    checked = 0
    for seed in range(start, start + 15):
        problem = activations_bind(seed, 6)
        program = Program.of(problem)
        rows = rows_of(sweep, program)
        for placement in fitting(problem, sweep):
            cost = problem.cost(placement)
            assert bound(program, rows, placement) <= cost * (1 + 1e-9) + 1e-6, seed
            checked += 1
    assert checked > 75, checked


@pytest.mark.parametrize("start", range(0, 45, 15))
def test_the_bound_is_below_the_best_and_nearer_than_what_is_alive_alone(start: int) -> None:
    near, alone = 0, 0
    for seed in range(start, start + 15):
        problem = activations_bind(seed, 7)
        program = Program.of(problem)
        alive = bound(program, moments(program))
        found = {sweep: bound(program, rows_of(sweep, program)) for sweep in Sweep}
        for sweep, value in found.items():
            best = best_of(problem, sweep)
            assert alive - 1e-6 <= value <= best * (1 + 1e-9) + 1e-6, (seed, sweep)
            near += sweep is Sweep.ALONG and (value == best or value == pytest.approx(best, abs=1e-3))
        best = best_of(problem)
        both = min(found[Sweep.ALONG], found[Sweep.AGAINST])
        assert both <= best * (1 + 1e-9) + 1e-6, seed
        alone += alive == best or alive == pytest.approx(best, abs=1e-3)
    assert near > max(alone, 11), (near, alone)


def holds(case: Case, problem: PlacementProblem, certain: Certain, placement: Placement) -> bool:
    """Of a placement. A variable behind those of groups says that a value is copied down, or that any case holds."""
    program = certain.alive.program
    copied = {variable: value for value, variable in program.down.items()}
    any_of = {variable: cast("tuple[Case, ...]", key) for key, variable in certain.alive.extra.items()}

    def is_one(variable: int) -> bool:
        if variable < program.groups:
            return bool(placement[program.of_op == variable].any())
        if variable in any_of:
            return any(holds(case, problem, certain, placement) for case in any_of[variable])
        (producer,) = problem.value_producer[[copied[variable]]].tolist()
        start, end = problem.value_uses.offsets[[copied[variable], copied[variable] + 1]].tolist()
        own = problem.value_uses.ops[start:end][~problem.value_uses.on_host[start:end]]
        return bool(placement[producer] == ACCELERATOR and (placement[own] != ACCELERATOR).any())

    return all(map(is_one, case.ones)) and not any(map(is_one, case.zeros))


Steps = set[tuple[int, int]]
"""(value, step) of buffers on the accelerator."""


def buffered(problem: PlacementProblem, placement: Placement, made: Cut) -> Steps:
    held = buffers(problem, placement, made, crossing_values(problem, made))
    mine = held.device == ACCELERATOR
    rows = zip(held.value[mine].tolist(), held.first[mine].tolist(), held.last[mine].tolist(), strict=True)
    return {(value, step) for value, first, last in rows for step in range(first, last + 1)}


def certain_steps(certain: Certain, step: list[int], is_so: Callable[[Case], bool]) -> Steps:
    """What is said to lie in a buffer on the accelerator, and when."""
    found: Steps = set()
    for value, maker in enumerate(certain.alive.reach.makers):
        readers = certain.alive.readers[value] if certain.alive.sizes[value] else []
        found.update((value, step[r]) for r in readers if any(map(is_so, certain.enters(value, r))))
        if maker >= 0 and any(map(is_so, certain.leaves(value))):
            found.add((value, step[maker]))
        for reader in readers if maker >= 0 else ():
            if any(map(is_so, certain.waits(value, [reader]))):
                found.update((value, moment) for moment in range(step[maker], step[reader] + 1))
    return found


@pytest.mark.parametrize("sweep", Sweep)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_certain_is_so_in_every_cut(seed: int, sweep: Sweep) -> None:
    problem = activations_bind(seed, 7)
    certain = Certain.of(Alive.of(Program.of(problem)), sweep)
    pairs = {(source, op) for op, sources in enumerate(certain.sources) for source in sources}
    pairs |= {(gate, op) for op in range(problem.ops) if (gate := certain.gate(op)) is not None}
    pairs |= {(op, outlet) for op in range(problem.ops) if (outlet := certain.outlet(op)) is not None}
    for placement in placements(problem):
        made = cut_by(sweep, problem, placement)
        is_so = partial(holds, problem=problem, certain=certain, placement=placement)
        assert certain_steps(certain, made.partition.tolist(), is_so) <= buffered(problem, placement, made)
        inner = [value for value in range(problem.values) if any(map(is_so, certain.stays_inside(value)))]
        assert not crossing_values(problem, made)[inner].any()
        for op, value in product(range(problem.ops), range(problem.values)):
            if any(map(is_so, certain.stays_inside_beside(value, op))):
                assert not crossing_values(problem, made)[value]
                assert made.partition[problem.value_producer[value]] == made.partition[op]
        for one, other in pairs:
            groups = certain.together(one, other)
            if groups and is_so(Case(groups)):
                assert made.partition[one] == made.partition[other]


@pytest.mark.parametrize("sweep", [Sweep.ALONG, Sweep.AGAINST])
@pytest.mark.parametrize("seed", range(40))
def test_linked_ops_come_to_one_partition_of_the_accelerator(seed: int, sweep: Sweep) -> None:
    problem = activations_bind(seed, 7)
    program = Program.of(problem)
    certain = Certain.of(Alive.of(program), sweep)
    found = [certain.gate(op) if sweep is Sweep.ALONG else certain.outlet(op) for op in range(problem.ops)]
    links = [(op, near, certain.linked(op, near)) for op, near in enumerate(found) if near is not None]
    checked = 0
    for placement in placements(problem):
        side = np.zeros(program.groups, np.int8)
        side[program.of_op] = placement
        come_to = stages_there(problem, placement, 1 if sweep is Sweep.ALONG else -1)
        for op, near, pairs in links:
            if pairs is not None and not any(side[one] > side[other] for one, other in pairs):
                assert come_to[op] == come_to[near]
                checked += 1
    assert checked or all(pairs is None for _, _, pairs in links)


def stages_there(problem: PlacementProblem, placement: Placement, ahead: int) -> list[int]:
    """Per op the stage of the partition on the accelerator that it is in, or of the next one ``ahead``."""
    edges = dependencies(problem)
    places = placement if problem.apart is None else placement + np.int8(2) * problem.apart
    stages = edges.forwards.changes(places) if ahead > 0 else -edges.backwards.changes(places)
    return (stages + np.where(placement == ACCELERATOR, 0, ahead)).tolist()


def test_what_crosses_a_border_and_what_is_inside_are_both_counted() -> None:
    """Of a chain whose first value is large, the border lies where little crosses, and not within what is inside."""
    problem = chain([(9.0, 1.0)] * 6, [10] * 6, copy=0.5, nbytes=40)
    sizes = np.array([100, 100, 40, 40, 60, 40])
    problem = replace(problem, value_bytes=sizes, budgets=np.array([-1, 285]))
    best = best_of(problem)
    program = Program.of(problem)
    alone, both = bound(program, moments(program)), bound(program, between_and_inside(program))
    assert alone < best - 1.0
    assert both == pytest.approx(best, abs=1e-3)
    found = solve(problem)
    assert found.cost == pytest.approx(best)
    assert found.gap < 0.01


def test_what_waits_inside_a_partition_for_another_branch_is_counted() -> None:
    """0 → {1 → 2, 3} → 4: what op 0 makes waits for op 3, though no edge says that ops 1 and 2 run before that."""
    problem = chain([(9.0, 1.0)] * 5, [0] * 5, copy=0.5, nbytes=100, budget=250)
    uses = Uses.from_rows([[(1, False), (3, False)], [(2, False)], [(4, False)], [(4, False)], []])
    problem = replace(problem, value_uses=uses)
    best = best_of(problem)
    program = Program.of(problem)
    found = between_and_inside(program)
    assert not usage(problem, np.ones(5, np.int8), cut(problem, np.ones(5, np.int8))).fits(problem)
    assert problem.cost(np.ones(5, np.int8)) + 1.0 < bound(program, found) <= best + 1e-6


def test_nothing_is_said_where_all_fits() -> None:
    problem = chain([(9.0, 1.0)] * 3, [10] * 3, nbytes=40, budget=1000)
    assert not between_and_inside(Program.of(problem)).rows.least


def test_the_gate_of_an_op_is_where_its_branches_part() -> None:
    """0 → 1 → {2, 3} → 4."""
    problem = chain([(1.0, 1.0)] * 5, [0] * 5, nbytes=8, budget=9)
    uses = Uses.from_rows([[(1, False)], [(2, False), (3, False)], [(4, False)], [(4, False)], []])
    certain = Certain.of(Alive.of(Program.of(replace(problem, value_uses=uses))))
    assert [certain.gate(op) for op in range(5)] == [None, 0, 1, 1, 1]
    assert [certain.outlet(op) for op in range(5)] == [1, 4, 4, 4, None]
    assert certain.together(1, 4) == (1, 2, 3, 4)
    assert certain.together(2, 4) == (2, 3, 4)


@pytest.mark.parametrize("start", range(0, 80, 40))
def test_bounds_by_sweep_are_below_the_best_of_all_placements(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far a plan is from its bound, and with no passage through it, both sweeps are asked for theirs."""
    monkeypatch.setattr(exact, "NEAR_IN_PARTS", 1.0)
    monkeypatch.setattr(branches, "by_passage", branches.no_passage)
    raised = 0
    in_parts = exact.Relaxation.in_parts

    def counted(relaxation: exact.Relaxation, *told: Any) -> Any:
        nonlocal raised
        before = relaxation.bound
        met = in_parts(relaxation, *told)
        raised += relaxation.bound > before
        return met

    monkeypatch.setattr(exact.Relaxation, "in_parts", counted)
    for seed in range(start, start + 40):
        problem = activations_bind(seed, 7)
        best = best_of(problem)
        if best < np.inf:
            assert solve(problem).lower_bound <= best * (1 + 1e-9), seed
    assert raised, start
