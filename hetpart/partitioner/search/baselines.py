"""What simpler rules would do: the placements ours is compared with, and never worse than.

A group goes where its first op in topological order goes. Whatever a rule says, an op runs only where it may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.groups import Groups
from hetpart.partitioner.search.earliest import earliest_finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ORT_WORKSPACE = 1.5
"""ONNX Runtime multiplies what it counts by this, for workspaces it cannot see."""


def all_cpu(problem: PlacementProblem) -> Placement:
    """Every op on the host that may run there."""
    return Groups.of(problem).place([])


def all_accelerator(problem: PlacementProblem) -> Placement:
    """Every op on the accelerator that may run there."""
    groups = Groups.of(problem)
    return groups.place(range(len(groups)))


def fill_in_order(problem: PlacementProblem) -> Placement:
    """ONNX Runtime's capacity-aware rule: in topological order until the first op that would exceed the budget.

    An op is charged 1.5 × (weights not charged before + outputs), and charges are never given back. Ops without an
    accelerator kernel are passed over.
    """
    groups = Groups.of(problem)
    order = np.flatnonzero(groups.may_accelerate)
    charged = ORT_WORKSPACE * (groups.charges(order) + groups.output_bytes)[order]
    return groups.place(_until(order, charged, _budget(problem)))


def accelerate_order(problem: PlacementProblem) -> Placement:
    """Hugging Face Accelerate's rule: in order, weights alone, room kept for the largest, never to come back."""
    groups = Groups.of(problem)
    order = np.flatnonzero(groups.may_accelerate)
    largest = int(groups.alone().max(initial=0))
    return groups.place(_until(order, groups.charges(order)[order], _budget(problem) - largest))


def _until(order: NDArray[np.int64], charged: NDArray[Any], budget: float) -> NDArray[np.int64]:
    """The groups before the first that exceeds the budget."""
    over = charged.cumsum() > budget
    return order[: int(over.argmax())] if over.any() else order


def density(problem: PlacementProblem) -> Placement:
    """Most seconds saved per byte of weights first, transfers and activations ignored."""
    groups = Groups.of(problem)
    saved = np.bincount(groups.of_op, problem.seconds[HOST] - problem.seconds[ACCELERATOR], len(groups))
    worth = np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate & (saved > 0))
    per_byte = saved / np.maximum(groups.alone(), 1e-9)
    order = worth[np.argsort(-per_byte[worth], kind="stable")]
    return groups.place(_first_fit(groups, order, _budget(problem)))


def _first_fit(groups: Groups, order: NDArray[np.int64], budget: float) -> list[int]:
    """Groups taken in turn as long as they fit, beside those that have no choice. A weight is charged once."""
    forced: list[int] = np.flatnonzero(groups.must_accelerate).tolist()
    shared = np.bincount(groups.weights.weights, minlength=len(groups.weight_bytes)) > 1
    own: list[int] = groups.weights.sums(np.where(shared, 0, groups.weight_bytes)).tolist()
    many: list[bool] = shared.tolist()
    sharers: set[int] = set(np.flatnonzero(groups.weights.sums(shared.astype(np.int64))).tolist())
    sizes: list[int] = groups.weight_bytes.tolist()
    charged: set[int] = {weight for group in forced for weight in groups.weights[group]}
    used: int = sum(sizes[weight] for weight in charged)
    chosen: list[int] = []
    turns: list[int] = order.tolist()
    for group in turns:
        read: list[int] = groups.weights[group] if group in sharers else []
        fresh: list[int] = [weight for weight in read if many[weight] and weight not in charged]
        nbytes = used + own[group] + sum(sizes[weight] for weight in fresh)
        if nbytes <= budget:
            used = nbytes
            charged.update(fresh)
            chosen.append(group)
    return chosen


def _budget(problem: PlacementProblem) -> float:
    budget = int(problem.budgets[ACCELERATOR])
    return float("inf") if budget == NO_BUDGET else float(budget)


BASELINES: dict[str, Callable[[PlacementProblem], Placement]] = {
    "all-cpu": all_cpu,
    "all-accelerator": all_accelerator,
    "fill-in-order": fill_in_order,
    "accelerate-order": accelerate_order,
    "density": density,
    "earliest-finish": earliest_finish,
}
