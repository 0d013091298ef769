from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.errors import InfeasibleError, InvalidOptionError
from hetpart.partitioner.problem import NO_BUDGET, Known, PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.solve import NothingFitsError, Solution, solve
from tests.partitioner.problems import chain, placements, random_problem

INF = float("inf")


def best_by_force(problem: PlacementProblem) -> tuple[float, float] | None:
    """Least cost, and least total seconds, of all placements that fit."""
    costs: list[tuple[float, float]] = []
    for placement in placements(problem):
        found = cut(problem, placement)
        if usage(problem, placement, found).fits(problem):
            cost = problem.cost(placement)
            costs.append((cost, cost + float(problem.session_seconds[found.devices].sum())))
    return (min(cost for cost, _ in costs), min(total for _, total in costs)) if costs else None


def assert_sound(problem: PlacementProblem, solution: Solution) -> None:
    """Judged by the independent checker alone."""
    verdict = check(problem, solution.placement, solution.cut)
    assert verdict.violations == ()
    assert verdict.cost == pytest.approx(solution.cost)
    assert verdict.total_seconds == pytest.approx(solution.total_seconds)
    assert list(verdict.peaks) == solution.usage.peak.tolist()
    assert solution.lower_bound <= solution.cost
    assert solution.gap == pytest.approx(gap(solution.cost, solution.lower_bound))
    assert [other.name for other in solution.baselines] == list(BASELINES)
    for other in solution.baselines:
        judged = check(problem, other.placement, cut(problem, other.placement))
        assert judged.legal
        assert judged.fits == other.fits
        assert not other.fits or solution.total_seconds <= judged.total_seconds + 1e-12


def with_host_budget(problem: PlacementProblem, share: float) -> PlacementProblem:
    total = int(problem.value_bytes.sum() + problem.weight_bytes.sum())
    return replace(problem, budgets=np.array([int(share * total), problem.budgets[1]]))


def solved_ratio(problem: PlacementProblem) -> float | None:
    """Ours over the optimum; nothing where brute force says that nothing fits."""
    best = best_by_force(problem)
    if best is None:
        with pytest.raises(NothingFitsError):
            solve(problem)
        return None
    solution = solve(problem)
    assert_sound(problem, solution)
    assert solution.lower_bound <= best[0] * (1 + 1e-9) + 1e-9
    assert solution.total_seconds >= best[1] * (1 - 1e-9) - 1e-9
    return (solution.total_seconds + 1e-3) / (best[1] + 1e-3)


@pytest.mark.parametrize(("host", "accelerator"), [(0.5, None), (0.3, 0.8), (0.8, 0.3)])
def test_against_brute_force_with_a_host_budget(host: float, accelerator: float | None) -> None:
    problems = (with_host_budget(random_problem(seed, most_ops=7, budget=accelerator), host) for seed in range(60))
    ratios = [ratio for problem in problems if (ratio := solved_ratio(problem)) is not None]
    assert len(ratios) > 15
    assert np.mean(ratios) <= 1.02


def test_equal_inputs_give_equal_outputs() -> None:
    for seed in range(8):
        problem = random_problem(seed, most_ops=30, budget=0.6, sessions=True)
        try:
            first = solve(problem)
        except NothingFitsError:
            continue
        again = solve(random_problem(seed, most_ops=30, budget=0.6, sessions=True))
        assert first.placement.tobytes() == again.placement.tobytes()
        assert (first.lower_bound, first.price, first.chosen) == (again.lower_bound, again.price, again.chosen)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_known_of_other_budgets_is_not_lost(seed: int) -> None:
    """Without time, from the plan of half the budget: never worse than that; and the bound that is told is kept."""
    problem = random_problem(seed, most_ops=8, budget=0.6)
    half = replace(problem, budgets=problem.budgets // np.array([1, 2]))
    try:
        smaller = solve(half)
    except NothingFitsError:
        return
    told = solve(problem).lower_bound
    found = solve(problem, time_limit=0.0, known=Known(((smaller.placement, None),), told))
    assert_sound(problem, found)
    assert found.total_seconds <= smaller.total_seconds
    assert found.lower_bound >= min(told, found.cost)
    cramped = solve(half, time_limit=0.0, known=Known(((found.placement, None),)))
    assert_sound(half, cramped)


def test_a_time_limit_of_nothing_still_gives_a_sound_solution() -> None:
    for seed in range(40):
        problem = random_problem(seed, most_ops=20, budget=0.7)
        if best_of_baselines(problem):
            assert_sound(problem, solve(problem, time_limit=0.0))


def best_of_baselines(problem: PlacementProblem) -> bool:
    return any(
        usage(problem, placement, cut(problem, placement)).fits(problem)
        for placement in (rule(problem) for rule in BASELINES.values())
    )


def test_a_refusal_names_every_device_that_lacks_bytes() -> None:
    problem = chain([(1.0, INF), (INF, 1.0)], [300, 200])
    with pytest.raises(NothingFitsError) as refused:
        solve(replace(problem, budgets=np.array([10, 100])))
    assert (
        refused.value.message == "cpu needs 300 bytes, its budget is 10 and cuda:0 needs 200 bytes, its budget is 100"
    )
    assert "cpu to 300 bytes and of cuda:0 to 200 bytes" in refused.value.hint
    assert solve(replace(problem, budgets=np.array([300, 200]))).placement.tolist() == [0, 1]
    with pytest.raises(NothingFitsError, match=r"^cpu needs 300 bytes, its budget is 10\n"):
        solve(replace(problem, budgets=np.array([10, 200])))


def refusal_of(problem: PlacementProblem) -> NothingFitsError | None:
    try:
        solve(problem)
    except NothingFitsError as error:
        return error
    return None


def test_a_refusal_names_a_budget_that_does_and_the_ops_that_force_it() -> None:
    problems = [random_problem(seed, most_ops=14, budget=0.15, sessions=True) for seed in range(40)]
    refused = [(problem, error) for problem in problems if (error := refusal_of(problem)) is not None]
    assert len(refused) > 5
    for problem, error in refused:
        shortage = error.shortage
        assert shortage.budget_bytes == problem.budgets[1] < error.required_bytes == shortage.required_bytes
        assert f"{error.required_bytes}" in error.hint
        assert set(shortage.ops) == set(np.flatnonzero(~problem.legal()[0]).tolist())
        enough = replace(problem, budgets=np.array([NO_BUDGET, error.required_bytes]))
        assert_sound(enough, solve(enough))


def test_the_smallest_budget_is_exact_where_all_placements_can_be_scored() -> None:
    for seed in range(60):
        problem = random_problem(seed, most_ops=7, budget=0.0)
        least = min(usage(problem, p, cut(problem, p)).peak[1] for p in placements(problem))
        if least:
            with pytest.raises(NothingFitsError) as refused:
                solve(problem)
            assert refused.value.required_bytes == least


SOURCES = ("random:7", "all-cpu", "all-accelerator", "fill-in-order", "accelerate-order", "density", "earliest-finish")


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_followed(source: str) -> None:
    for seed in range(40):
        problem = random_problem(seed, most_ops=12)
        solution = solve(problem, source=source)
        assert_sound_but_slow(problem, solution)
        assert solution.chosen == source
        if source in BASELINES:
            assert (solution.placement == BASELINES[source](problem)).all()


def assert_sound_but_slow(problem: PlacementProblem, solution: Solution) -> None:
    verdict = check(problem, solution.placement, solution.cut)
    assert verdict.violations == ()
    assert verdict.cost == pytest.approx(solution.cost)
    assert solution.lower_bound <= solution.cost


def test_random_placements_fit_a_budget() -> None:
    problem = chain([(1.0, 1.0)] * 30, [100] * 30, nbytes=10, budget=1000)
    found = [solve(problem, source=f"random:{seed}") for seed in range(20)]
    assert all(solution.usage.peak[1] <= 1000 for solution in found)
    assert sum(solution.placement.any() for solution in found) > 15


def test_a_given_placement_is_scored_as_it_is() -> None:
    problem = chain([(10.0, 1.0)] * 4, [100] * 4, copy=1.0)
    solution = solve(problem, source=np.array([0, 1, 1, 0], np.int8))
    assert (solution.chosen, solution.cost, solution.cut.partitions) == ("given", 24.0, 3)
    # All on the accelerator costs its 4 seconds and the copy of the result.
    assert solution.lower_bound == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("placement", "message"),
    [([0, 0, 0], "3 ops"), ([0, 2, 0, 0], "cannot run: ops \\[1\\]"), ([1, 0, 0, 0], "cannot run: ops \\[0\\]")],
)
def test_a_given_placement_that_is_not_legal_is_refused(placement: list[int], message: str) -> None:
    problem = chain([(10.0, INF), (10.0, 1.0), (10.0, 1.0), (10.0, 1.0)], [100] * 4)
    with pytest.raises(InvalidOptionError, match=message):
        solve(problem, source=np.array(placement, np.int8))


def test_what_was_asked_for_and_does_not_fit_is_refused_with_its_peak() -> None:
    problem = chain([(10.0, 1.0)] * 4, [100] * 4, budget=250)
    with pytest.raises(InfeasibleError) as refused:
        solve(problem, source="all-accelerator")
    assert refused.value.required_bytes == 400
    assert solve(problem).placement.sum() == 2


@pytest.mark.parametrize("source", ["fastest", "random", "random:", "random:-1", "random:x", ""])
def test_an_unknown_source_lists_those_there_are(source: str) -> None:
    with pytest.raises(InvalidOptionError, match="no placement source") as refused:
        solve(chain([(1.0, 1.0)], [1]), source=source)
    assert "fill-in-order" in refused.value.hint


def test_budget_nothing_puts_everything_on_the_host() -> None:
    solution = solve(chain([(10.0, 1.0)] * 4, [100] * 4, nbytes=1, budget=0))
    assert solution.placement.tolist() == [0, 0, 0, 0]
    assert solution.gap == 0.0


def test_a_host_alone_has_one_placement() -> None:
    both = chain([(10.0, 1.0)] * 3, [100] * 3)
    alone = replace(
        both,
        devices=("cpu",),
        seconds=both.seconds[:1],
        copy_seconds=both.copy_seconds[:1, :1],
        budgets=both.budgets[:1],
        session_seconds=both.session_seconds[:1],
        session_bytes=both.session_bytes[:1],
    )
    solution = solve(alone)
    assert (solution.cost, solution.gap, solution.cut.partitions) == (30.0, 0.0, 1)
    assert all(solve(alone, source=source).cost == 30.0 for source in SOURCES)
    with pytest.raises(NothingFitsError):
        solve(replace(alone, budgets=np.array([299])))


def test_no_ops_cost_nothing() -> None:
    solution = solve(chain([], []))
    assert (solution.cost, solution.gap, solution.cut.partitions) == (0.0, 0.0, 0)


def test_an_op_that_runs_nowhere_and_a_third_device_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="may run on no device: ops \\[1\\]"):
        solve(chain([(1.0, 1.0), (INF, INF)], [1, 1]))
    problem = chain([(1.0, 1.0)], [1])
    with pytest.raises(InvalidOptionError, match="two so far"):
        solve(replace(problem, devices=("cpu", "cuda:0", "cuda:1"), seconds=np.ones((3, 1))))


def test_session_overhead_decides_between_one_partition_and_many() -> None:
    """Every second op is a little faster on the host: not worth the sessions that a change of device takes."""
    problem = chain([(10.0, 1.0), (0.9, 1.0)] * 10, [100] * 20, copy=0.01)
    assert solve(problem).cut.partitions > 10
    solution = solve(replace(problem, session_seconds=np.array([0.5, 0.5])))
    assert solution.cut.partitions == 1
    assert solution.total_seconds == pytest.approx(20.0 + 0.01 + 0.5)


def test_weights_that_fit_but_not_beside_the_activations() -> None:
    """All weights fit, and every op alone does: what is alive between them does not."""
    problem = chain([(10.0, 1.0)] * 9, [10] * 9, copy=0.1, nbytes=40, budget=220)
    wide = problem.value_bytes.copy()
    wide[4] = 110
    problem = replace(problem, value_bytes=wide)
    best = best_by_force(problem)
    solution = solve(problem)
    assert best is not None
    assert solution.cost == pytest.approx(best[0])
    assert 0 < solution.placement.sum() < 9


def test_placements_over_several_accelerators_are_taken_and_drawn_but_not_searched() -> None:
    both = [random_problem(seed, most_ops=14, sessions=True) for seed in range(30)]
    problems = [with_another_accelerator(problem) for problem in both if problem.value_kept is None]
    used: set[int] = set()
    for seed, problem in enumerate(problems):
        found = solve(problem, source=f"random:{seed}")
        verdict = check(problem, found.placement, found.cut)
        assert verdict.violations == ()
        assert verdict.cost == pytest.approx(found.cost)
        assert found.lower_bound <= found.cost
        assert solve(problem, source=found.placement).cost == found.cost
        used |= set(found.placement.tolist())
        for source in ("optimal", "all-cpu"):
            with pytest.raises(InvalidOptionError, match="two so far"):
                solve(problem, source=source)
    assert used == {0, 1, 2}


def with_another_accelerator(problem: PlacementProblem) -> PlacementProblem:
    """``problem`` with a third device like the second, as far from it as twice from the host."""
    copies = np.zeros((3, 3, problem.values))
    copies[:2, :2] = problem.copy_seconds
    copies[2, 0], copies[0, 2] = copies[1, 0], copies[0, 1]
    copies[1, 2] = copies[2, 1] = copies[1, 0] + copies[0, 1]
    third = [0, 1, 1]
    return replace(
        problem,
        devices=("cpu", "cuda:0", "cuda:1"),
        seconds=problem.seconds[third],
        copy_seconds=copies,
        budgets=problem.budgets[third],
        session_seconds=problem.session_seconds[third],
        session_bytes=problem.session_bytes[third],
    )
