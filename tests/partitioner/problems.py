"""Random placement problems, and what brute force says of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, WHERE_USED, Placement, PlacementProblem, Reorders, States
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def _overlaid(seed: int, ops: int, producer: NDArray[np.int32], value_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) Of what some ops make, what they write over their inputs; in every second problem."""
    made = np.zeros(ops, np.int64)
    np.add.at(made, producer[producer != NO_OP], value_bytes[producer != NO_OP])
    return made * (np.random.default_rng([seed, ops]).random(ops) < 0.3) * (seed % 2)


def _reorders(problem: PlacementProblem, seed: int) -> Reorders | None:
    """Some of what ops read or make, of two problems in four."""
    made, uses = np.flatnonzero(problem.value_producer != NO_OP), problem.value_uses
    ops = np.concatenate([problem.value_producer[made], uses.ops]).astype(np.int64)
    pairs = np.unique(np.stack([ops, np.concatenate([made, uses.rows])]), axis=1)
    pairs = pairs[:, np.random.default_rng([seed, 1]).random(pairs.shape[1]) < 0.4]
    return Reorders(*pairs) if pairs.size and seed // 2 % 2 else None


def random_problem(
    seed: int, *, most_ops: int = 8, budget: float | None = None, sessions: bool = False
) -> PlacementProblem:
    """A problem with hyperedges, shared weights, host operands, pins, groups, graph inputs and outputs.

    Of every third the caller keeps some values on the accelerator.

    ``budget`` is a share of the weights and values together.
    """
    rng = np.random.default_rng(seed)
    ops = int(rng.integers(1, most_ops + 1))
    values, weights = int(rng.integers(1, ops + 4)), int(rng.integers(0, ops + 3))
    producer = np.where(rng.random(values) < 0.2, NO_OP, rng.integers(0, ops, values)).astype(np.int32)
    seconds = rng.choice([0.0, 1.0, 2.0, 5.0, 9.0], (2, ops)) * rng.random((2, ops))
    pinned = rng.random(ops) < 0.15
    seconds[rng.integers(0, 2, ops)[pinned], np.flatnonzero(pinned)] = np.inf
    groups = np.where(rng.random(ops) < 0.3, rng.integers(0, ops, ops), np.arange(ops)).astype(np.int32)
    copy = np.zeros((2, 2, values))
    copy[0, 1] = rng.choice([0.0, 0.3, 1.0, 4.0], values) * rng.random(values)
    copy[1, 0] = rng.choice([0.0, 0.3, 1.0, 4.0], values) * rng.random(values)
    value_bytes, weight_bytes = rng.integers(0, 100, values), rng.integers(0, 300, weights)
    total = int(value_bytes.sum() + weight_bytes.sum())
    problem = PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=seconds,
        groups=groups,
        scratch_bytes=rng.integers(0, 30, ops) * (rng.random(ops) < 0.3) - _overlaid(seed, ops, producer, value_bytes),
        value_producer=producer,
        value_left_on_host=(producer != NO_OP) & (rng.random(values) < 0.1),
        value_returned=rng.random(values) < 0.2,
        value_bytes=value_bytes,
        value_uses=Uses.from_rows([_users(rng, int(made), ops) for made in producer]),
        copy_seconds=copy,
        weight_bytes=weight_bytes,
        weight_uses=Uses.from_rows([_users(rng, NO_OP, ops) for _ in range(weights)]),
        budgets=np.array([NO_BUDGET, NO_BUDGET if budget is None else int(budget * total)]),
        session_seconds=rng.random(2) if sessions else np.zeros(2),
        session_bytes=rng.integers(0, 20, 2) if sessions else np.zeros(2, np.int64),
        value_kept=(rng.random(values) < 0.5).astype(np.int8) if seed % 3 == 0 else None,
    )
    problem = replace(problem, reorders=_reorders(problem, seed))
    # A group that may run nowhere makes no problem: try the next.
    return (
        problem
        if problem.legal().any(axis=0).all()
        else random_problem(seed + 1_000_003, most_ops=most_ops, budget=budget, sessions=sessions)
    )


def _users(rng: np.random.Generator, producer: int, ops: int) -> list[tuple[int, bool]]:
    later = np.arange(producer + 1, ops)
    chosen = np.sort(rng.choice(later, min(len(later), int(rng.integers(0, 4))), replace=False))
    return [(int(op), bool(rng.random() < 0.15)) for op in chosen]


def with_calls(problem: PlacementProblem, seed: int) -> PlacementProblem:
    """Some ops run apart, and some graph inputs are states, which lie with one of the ops."""
    rng = np.random.default_rng(seed + 77)
    uses = problem.value_uses
    free = (problem.value_producer == NO_OP) & ~problem.value_returned & (problem.kept == 0)
    free[uses.rows[uses.on_host]] = False
    given = np.flatnonzero(free & (rng.random(problem.values) < 0.7))
    keeper, kept, sizes = np.full(problem.values, NO_OP, np.int32), problem.kept.copy(), problem.value_bytes.copy()
    keeper[given], kept[given] = rng.integers(0, problem.ops, len(given)), WHERE_USED
    nbytes = np.where(keeper == NO_OP, 0, sizes)
    sizes[given] = 0
    weights, more = problem.weight_uses, Uses.from_rows([[(int(op), False)] for op in keeper[given]])
    return replace(
        problem,
        apart=rng.random(problem.ops) < 0.35,
        value_kept=kept,
        value_bytes=sizes,
        states=States(keeper, nbytes),
        weight_bytes=np.concatenate([problem.weight_bytes, nbytes[given] * rng.integers(1, 4, len(given))]),
        weight_uses=Uses(
            np.concatenate([weights.offsets, weights.offsets[-1] + more.offsets[1:]]),
            np.concatenate([weights.ops, more.ops]),
            np.concatenate([weights.on_host, more.on_host]),
        ),
        streaming=None,
    )


def with_host_more(problem: PlacementProblem, seed: int) -> PlacementProblem:
    """The host takes more for some of the first weights, as where its kernels hold them in another form."""
    rng = np.random.default_rng(seed + 78)
    count = int(rng.integers(0, len(problem.weight_bytes) + 1))
    return replace(problem, host_more=rng.integers(0, 30, count) * (rng.random(count) < 0.7))


def sessions(problem: PlacementProblem, placement: Placement) -> int:
    """Of ONNX Runtime on the accelerator."""
    found = cut(problem, placement)
    ours = range(problem.ops) if problem.apart is None else np.flatnonzero(~problem.apart).tolist()
    return len({int(found.partition[op]) for op in ours if placement[op] == ACCELERATOR})


def placements(problem: PlacementProblem) -> Iterator[Placement]:
    """Every legal placement."""
    names, group = np.unique(problem.groups, return_inverse=True)
    legal = problem.legal()
    for sides in product((0, 1), repeat=len(names)):
        placement = np.array(sides, np.int8)[group]
        if legal[placement, np.arange(problem.ops)].all():
            yield placement


def accelerator_weights(problem: PlacementProblem, placement: Placement) -> int:
    """Of weights that it holds, and of what the caller gives there."""
    kept = np.zeros(problem.values) if problem.value_kept is None else problem.value_kept
    given = problem.value_bytes[(problem.value_producer == NO_OP) & (kept == 1)].sum()
    return int(problem.held(placement)[1] @ problem.weight_bytes + given)


def chain(
    seconds: list[tuple[float, float]],
    weights: list[int],
    *,
    copy: float = 0.0,
    nbytes: int = 0,
    budget: int = NO_BUDGET,
) -> PlacementProblem:
    """Ops one after another, each with a weight of its own: (seconds on the host, on the accelerator) of each."""
    ops = len(seconds)
    copies = np.zeros((2, 2, ops))
    copies[0, 1] = copies[1, 0] = copy
    return PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=np.array(seconds, np.float64).reshape(ops, 2).T.copy(),
        groups=np.arange(ops, dtype=np.int32),
        scratch_bytes=np.zeros(ops, np.int64),
        value_producer=np.arange(ops, dtype=np.int32),
        value_left_on_host=np.zeros(ops, np.bool_),
        value_returned=np.arange(ops) == ops - 1,
        value_bytes=np.full(ops, nbytes, np.int64),
        value_uses=Uses.from_rows([[(op + 1, False)] if op + 1 < ops else [] for op in range(ops)]),
        copy_seconds=copies,
        weight_bytes=np.array(weights, np.int64),
        weight_uses=Uses.from_rows([[(op, False)] for op in range(ops)]),
        budgets=np.array([NO_BUDGET, budget]),
        session_seconds=np.zeros(2),
        session_bytes=np.zeros(2, np.int64),
    )
