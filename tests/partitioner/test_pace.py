"""Long partitions that are cut short: layers that each bring a cache to copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetpart.partitioner.bounds.by_borders import bound_by_borders
from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.partitioner.search.pace import paced
from hetpart.partitioner.uses import Uses

LAYERS, CACHE, SESSION = 32, 80, 50


def with_caches(layers: int = LAYERS, cache: int = CACHE) -> PlacementProblem:
    """Of three ops a layer the middle one reads a cache that the host gives, and is a little slower for being there."""
    ops = 3 * layers
    middle = np.arange(ops) % 3 == 1
    made, given = ops, layers
    rows: list[list[tuple[int, bool]]] = [[(op + 1, False)] if op + 1 < ops else [] for op in range(ops)]
    rows += [[(op, False)] for op in np.flatnonzero(middle).tolist()]
    copies = np.zeros((2, 2, made + given))
    copies[0, 1] = copies[1, 0] = np.repeat([0.01, 0.3], [made, given])
    return PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=np.stack([np.where(middle, 0.3, 10.0), np.where(middle, 0.1, 1.0)]),
        groups=np.arange(ops, dtype=np.int32),
        scratch_bytes=np.zeros(ops, np.int64),
        value_producer=np.concatenate([np.arange(ops), np.full(given, NO_OP)]).astype(np.int32),
        value_left_on_host=np.zeros(made + given, np.bool_),
        value_returned=np.arange(made + given) == ops - 1,
        value_bytes=np.repeat([1, cache], [made, given]),
        value_uses=Uses.from_rows(rows),
        copy_seconds=copies,
        weight_bytes=np.where(middle, 0, 200),
        weight_uses=Uses.from_rows([[(op, False)] for op in range(ops)]),
        budgets=np.array([-1, 75 * 2 * layers * 2]),
        session_seconds=np.zeros(2),
        session_bytes=np.array([0, SESSION]),
    )


def test_partitions_share_out_what_crosses() -> None:
    problem = with_caches()
    within, scorer = without_misfits(problem), Scorer.of(problem)
    search = search_with_sessions(within)
    found = min(paced(scorer, within, search.price, lambda: False), key=lambda one: one.fit_rank)
    there = int((found.cut.devices == 1).sum())
    assert found.fits
    assert 2 <= there <= LAYERS // 2
    bound = bound_by_borders(within, search.met, np.inf, lambda: False)
    assert search.bound * 1.005 < bound <= found.cost <= bound * 1.05


def test_where_nothing_is_worth_room_there_is_nothing_to_share() -> None:
    problem = with_caches()
    for other in (replace(problem, session_bytes=np.zeros(2, np.int64)), replace(problem, budgets=np.array([-1, -1]))):
        within = without_misfits(other)
        assert paced(Scorer.of(other), within, search_with_sessions(within).price, lambda: False) == []
