"""What few partitions certainly hold inside themselves, beside every placement of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.by_partitions import bound_by_partitions
from hetpart.partitioner.bounds.inside import Insides, Stretches
from hetpart.partitioner.problem import PlacementProblem, Streaming
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import while_running, without_misfits
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.scores.streamed import StreamScorer
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements, random_problem, sessions, with_calls
from tests.partitioner.streams import all_scored

ROUNDING = 1e-9


def insides(problem: PlacementProblem) -> Insides:
    return Insides.of(problem, while_running(problem))


def met(problem: PlacementProblem) -> int:
    """Placements of which it is told what some session holds inside; each does."""
    count = 0
    known = insides(problem).known
    for placement in placements(problem):
        partitions = sessions(problem, placement)
        for stretches in known:
            ends = placement[stretches.ends]
            whole, many = int(ends.min(axis=1).sum()), int(ends.sum())
            if partitions and (whole >= partitions or many > stretches.most_on(partitions)):
                used = usage(problem, placement, cut(problem, placement))
                assert used.inside[ACCELERATOR] >= stretches.nbytes
                count += 1
    return count


@pytest.mark.parametrize("seed", range(60))
def test_some_partition_holds_as_much(seed: int) -> None:
    problem = random_problem(seed, most_ops=8, sessions=seed % 2 == 0)
    met(with_calls(problem, seed) if seed % 3 == 1 else problem)
    rng = np.random.default_rng(seed)
    linked = chain([(2.0, 1.0)] * 8, [10] * 8, nbytes=5)
    linked = replace(linked, value_bytes=rng.integers(0, 40, 8), scratch_bytes=rng.integers(0, 20, 8))
    assert met(linked) > 0


def test_values_of_a_stretch_are_inside_and_what_crosses_is_not() -> None:
    problem = chain([(2.0, 1.0)] * 5, [10] * 5, nbytes=7)
    known = [(stretches.ends.tolist(), stretches.nbytes) for stretches in insides(problem).known]
    assert known == [([[0, 2], [2, 4]], 14), ([[0, 1], [1, 2], [2, 3], [3, 4]], 7)]
    returned = replace(problem, value_returned=np.ones(5, np.bool_))
    assert insides(returned).known == ()


def test_what_waits_beside_a_path_is_inside_with_it() -> None:
    """What an op makes for a later one lies there while those between them run."""
    skipped = chain([(2.0, 1.0)] * 4, [10] * 4, nbytes=7)
    uses = Uses.from_rows([[(1, False), (3, False)], [(2, False)], [(3, False)], []])
    stretches = insides(replace(skipped, value_uses=uses)).known[0]
    assert (stretches.ends.tolist(), stretches.nbytes) == ([[0, 3]], 21)


def test_a_partition_that_holds_no_whole_stretch_has_two_ends() -> None:
    """Of six stretches one partition has the last end of one and the first of the next; so do two of their own."""
    stretches = Stretches(np.arange(12).reshape(6, 2), nbytes=1)
    assert [stretches.most_on(partitions) for partitions in (1, 2, 3, 5, 6)] == [2, 4, 6, 10, 11]


def long_layers(budget: int) -> PlacementProblem:
    """Layers that take much room inside, few of which may run on the host; the outermost weights may stream."""
    problem = chain([(30.0, 1.0)] * 12, [40] * 12, copy=0.1, nbytes=15, budget=budget)
    seconds = problem.seconds.copy()
    seconds[0, [0, 2, 3, 4, 6, 7, 8, 9, 11]] = np.inf
    streamed = np.where(np.isin(np.arange(12), [0, 1, 10, 11]), 1.0, np.inf)
    streaming = Streaming(streamed, problem.weight_bytes, asked=True)
    return replace(problem, seconds=seconds, session_bytes=np.array([0, 40]), streaming=streaming)


def least_that_streams(problem: PlacementProblem) -> float:
    """Of what fits; in one partition nothing is gained by it."""
    found = (one for one in all_scored(problem) if one.fits and one.streamed.any())
    return min((one.cost for one in found if int(one.own.cut.devices.sum()) > 1), default=np.inf)


def test_the_bound_counts_it_beside_what_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = 0
    for budget in range(520, 700, 15):
        problem = long_layers(budget)
        states = StreamScorer.over(problem).states
        within, least = without_misfits(states.problem), least_that_streams(problem)
        found = bound_by_partitions(states, within, min(least, 1e3), lambda: False)
        assert found <= least * (1 + ROUNDING) + ROUNDING
        with monkeypatch.context() as without:
            without.setattr(Insides, "among", _none)
            raised += bound_by_partitions(states, within, min(least, 1e3), lambda: False) < found - 0.5
    assert raised >= 2


def _none(*_: object) -> None:
    """Of no number of partitions anything is told."""
