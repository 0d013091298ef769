"""Random problems whose weights may be streamed, and what brute force over all three states says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from hetpart.partitioner.problem import PlacementProblem, Streaming
from hetpart.partitioner.scores.streamed import StreamScored, StreamScorer
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements, random_problem


def any_problem(seed: int, *, budget: float, sessions: bool = False) -> PlacementProblem:
    """One with all there can be; streaming rarely pays in it."""
    rng = np.random.default_rng(seed + 7)
    problem = random_problem(seed, most_ops=5, budget=budget, sessions=sessions)
    count = len(problem.weight_bytes)
    seconds = problem.weight_bytes * rng.choice([0.001, 0.003, 0.01]) + rng.random() * 0.2
    forbidden = rng.random(count) < max(0.2, 1 - 5 / max(1, count))
    return replace(problem, streaming=Streaming(np.where(forbidden, np.inf, seconds), problem.weight_bytes, asked=True))


def layered_problem(seed: int) -> PlacementProblem:
    """Ops in a chain, some weights shared, slow on the host: streaming often pays."""
    rng = np.random.default_rng(seed)
    ops = int(rng.integers(4, 6))
    weights = rng.integers(30, 60, ops)
    seconds = zip(rng.uniform(2, 12, ops).tolist(), rng.uniform(0.2, 2, ops).tolist(), strict=True)
    problem = chain(
        list(seconds),
        weights.tolist(),
        copy=float(rng.choice([0, 0.3, 1])),
        nbytes=int(rng.choice([0, 5, 20])),
        budget=int(weights.sum() * rng.uniform(0.2, 0.9)),
    )
    rows = [[(op, False), *_another(rng, op, ops)] for op in range(ops)]
    sessions = seed % 4 == 0
    copies = weights * rng.choice([0.01, 0.03, 0.06]) + rng.random() * 0.2
    return replace(
        problem,
        weight_uses=Uses.from_rows(rows),
        session_bytes=np.array([0, 3 * sessions]),
        session_seconds=np.array([0.05, 0.1]) * sessions,
        streaming=Streaming(np.where(rng.random(ops) < 0.1, np.inf, copies), weights, asked=True),
    )


def _another(rng: np.random.Generator, op: int, ops: int) -> list[tuple[int, bool]]:
    if op + 1 == ops or rng.random() > 0.2:
        return []
    return [(int(rng.integers(op + 1, ops)), bool(rng.random() < 0.2))]


def all_scored(problem: PlacementProblem) -> Iterator[StreamScored]:
    """Every placement of ops, with every set of weights streamed."""
    assert problem.streaming is not None
    scorer, allowed = StreamScorer.over(problem), np.flatnonzero(problem.streaming.allowed)
    for placement in placements(problem):
        for chosen in product((False, True), repeat=len(allowed)):
            streamed = np.zeros(len(problem.weight_bytes), np.bool_)
            streamed[allowed] = chosen
            found = scorer.score(scorer.states.together(placement, streamed))
            assert isinstance(found, StreamScored)
            yield found
