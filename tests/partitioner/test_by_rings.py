"""The bound on what streams by programs of few partitions, beside every placement of small problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds import by_rings
from hetpart.partitioner.bounds.by_rings import Numbers, bound_by_rings
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.passing import Passing
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem, Streaming
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.scores.rings import ring_cuts
from hetpart.partitioner.scores.streamed import StreamScorer
from hetpart.partitioner.scores.streaming import LEAST_PARTITIONS, with_streamed
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements
from tests.partitioner.streams import any_problem, layered_problem

ROUNDING = 1e-9
UNIT = 24


def in_pieces(seed: int) -> PlacementProblem:
    """Most ops in a chain, some beside it, with weights of one, two or four units, and some of other sizes."""
    rng = np.random.default_rng(seed)
    ops = 5
    weights = UNIT * rng.choice([1, 1, 2, 4], ops) + (rng.random(ops) < 0.2) * rng.integers(1, UNIT, ops)
    seconds = zip(rng.uniform(3, 12, ops).tolist(), rng.uniform(0.2, 2, ops).tolist(), strict=True)
    problem = chain(list(seconds), weights.tolist(), copy=float(rng.choice([0, 0.3])), nbytes=1)
    rows = [[(op + 1, False)] if op + 1 < ops else [] for op in range(ops)]
    for op in range(ops - 2):
        rows[op] += [(op + 2, False)] * (rng.random() < 0.3)
    given = int(rng.integers(0, ops))
    return replace(
        problem,
        value_producer=np.append(problem.value_producer, NO_OP).astype(np.int32),
        value_left_on_host=np.zeros(ops + 1, np.bool_),
        value_returned=np.append(rng.random(ops) < 0.2, False),
        value_bytes=rng.choice([1, 6, 12], ops + 1),
        copy_seconds=np.concatenate([problem.copy_seconds, problem.copy_seconds[:, :, :1]], axis=2),
        value_uses=Uses.from_rows([*rows, [(0, False), *([(given, False)] if given else [])]]),
        scratch_bytes=rng.integers(0, 9, ops) * (rng.random(ops) < 0.3),
        budgets=np.array([-1, int(weights.sum() * rng.uniform(0.4, 0.9))]),
        session_bytes=np.array([0, int(rng.choice([0, 3, UNIT // 2]))]),
        streaming=Streaming(weights * rng.choice([0.005, 0.02]) + rng.random(ops) * 0.05, weights, asked=True),
    )


def cheapest(problem: PlacementProblem) -> dict[int, float]:
    """Of all that streams and fits, in any cut that is tried, by its partitions on the accelerator."""
    found = dict[int, float]()
    for placement in placements(problem):
        for own in streaming(problem, placement):
            cost = own.cost(placement)
            for one in ring_cuts(own, cut(own, placement)):
                count = int((one.cut.devices == ACCELERATOR).sum())
                if cost < found.get(count, np.inf) and usage(own, placement, one.cut).fits(own):
                    found[count] = cost
    return found


def streaming(problem: PlacementProblem, placement: Placement) -> Iterator[PlacementProblem]:
    """With any of the weights streamed that the accelerator uses."""
    assert problem.streaming is not None
    allowed = np.flatnonzero(problem.streaming.allowed & problem.held(placement)[ACCELERATOR])
    for chosen in product((False, True), repeat=len(allowed)):
        streamed = np.zeros(len(problem.weight_bytes), np.bool_)
        streamed[allowed] = chosen
        if streamed.any():
            yield with_streamed(problem, streamed)


def numbers(problem: PlacementProblem) -> Numbers:
    states = StreamScorer.over(problem).states
    return Numbers(states, without_misfits(states.problem))


def problems() -> Iterator[PlacementProblem]:
    yield from (in_pieces(seed) for seed in range(16))
    yield from (layered_problem(seed) for seed in range(8))
    yield from (any_problem(seed, budget=0.3, sessions=seed % 2 == 0) for seed in range(8))


@pytest.fixture(autouse=True)
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are solved whatever their relaxations say."""
    monkeypatch.setattr(by_rings, "NEAR", 0.0)
    monkeypatch.setattr(by_rings, "NEARLY", 0.0)


@pytest.mark.parametrize("problem", [*problems()])
def test_nothing_of_so_many_partitions_is_cheaper(problem: PlacementProblem) -> None:
    found = numbers(problem)
    known = {count: cost for count, cost in cheapest(problem).items() if count >= LEAST_PARTITIONS}
    for count, cost in known.items():
        bound = found.solved(count, 2 * cost + 1, Clock.of(60.0))
        assert found.priced(count, count) * (1 - ROUNDING) <= cost
        assert bound <= cost * (1 + ROUNDING) + ROUNDING
    enough = 2 * max(known.values(), default=1.0) + 1
    bound = bound_by_rings(found.states, found.within, enough, Clock.of(60.0))
    assert bound <= min(known.values(), default=enough) * (1 + ROUNDING) + ROUNDING


def test_portions_are_of_whole_weights() -> None:
    """Of five equal weights three and a half have room: three streamed would do if halves of one could be apart."""
    problem = chain([(30.0, 1.0)] * 5, [40] * 5, nbytes=2, budget=60 + 140 + 4)
    streaming = Streaming(np.full(5, 2.0), problem.weight_bytes, asked=True)
    problem = replace(problem, session_bytes=np.array([0, 20]), streaming=streaming)
    found = numbers(problem)
    assert found.priced(3, 3) < 12.0
    assert found.solved(3, 100.0, Clock.of(60.0)) == pytest.approx(13.0, rel=1e-3)
    assert cheapest(problem)[3] == pytest.approx(13.0)


def test_what_crosses_borders_lies_beside_a_portion() -> None:
    """Each of three partitions is handed something and hands something on: as much less is left for weights."""
    problem = chain([(30.0, 1.0)] * 5, [40] * 5, nbytes=9, budget=60 + 160 + 17)
    streaming = Streaming(np.full(5, 2.0), problem.weight_bytes, asked=True)
    problem = replace(problem, session_bytes=np.array([0, 20]), streaming=streaming)
    passing = Passing.of(numbers(problem).within)
    assert (passing.entering, passing.leaving, passing.given, passing.returned) == (9, 9, 0, 9)
    assert passing.least() == 9
    assert passing.together(3) == 45
    assert numbers(problem).solved(3, 100.0, Clock.of(60.0)) <= cheapest(problem)[3]
