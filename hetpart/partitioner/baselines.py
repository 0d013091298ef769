"""What simpler rules would do: the placements ours is compared with, and never worse than.

A group goes where its first op in topological order goes. Whatever a rule says, an op runs only where it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.mincut import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, Placement, PlacementProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

ORT_WORKSPACE = 1.5
"""ONNX Runtime multiplies what it counts by this, for workspaces it cannot see."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of a problem in order of their first op, with what each would add to the accelerator."""

    of_op: NDArray[np.int64]
    """(N,) Position of each op's group."""
    may_accelerate: NDArray[np.bool_]
    must_accelerate: NDArray[np.bool_]
    weights: tuple[tuple[int, ...], ...]
    """Weights each group reads on its own device."""
    output_bytes: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    """(W,) Of every weight."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Groups:
        names, first, inverse = np.unique(problem.groups, return_index=True, return_inverse=True)
        position = np.empty(len(names), np.int64)
        position[np.argsort(first)] = np.arange(len(names))
        of_op = position[inverse]
        firsts = np.sort(first)
        legal = problem.legal()[:, firsts]
        made = problem.value_producer != NO_OP
        outputs = np.bincount(of_op[problem.value_producer[made]], problem.value_bytes[made], len(names))
        return cls(
            of_op,
            legal[ACCELERATOR],
            ~legal[HOST],
            _weights_of(problem, of_op, len(names)),
            outputs.astype(np.int64),
            problem.weight_bytes,
        )

    def __len__(self) -> int:
        return len(self.may_accelerate)

    def sums(self, of_op: NDArray[np.int64]) -> list[int]:
        """The sum over each group's ops."""
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.of_op, of_op)
        return total.tolist()

    def place(self, chosen: Iterable[int]) -> Placement:
        """``chosen`` groups on the accelerator as far as they may, the rest on the host as far as they may."""
        side = self.must_accelerate.copy()
        side[list(chosen)] = True
        return (side & self.may_accelerate)[self.of_op].astype(np.int8)

    def charge(self, group: int, charged: set[int]) -> int:
        """Bytes of the group's weights that are not ``charged`` yet; they are from now on."""
        fresh = self.fresh(group, charged)
        charged.update(fresh)
        return self.bytes_of(fresh)

    def fresh(self, group: int, charged: set[int]) -> list[int]:
        return [weight for weight in self.weights[group] if weight not in charged]

    def bytes_of(self, weights: list[int]) -> int:
        return sum(int(self.weight_bytes[weight]) for weight in weights)

    def alone(self, group: int) -> int:
        """Bytes of all the weights the group reads."""
        return self.bytes_of(list(self.weights[group]))


def _weights_of(problem: PlacementProblem, of_op: NDArray[np.int64], groups: int) -> tuple[tuple[int, ...], ...]:
    uses = problem.weight_uses
    pairs = np.stack([of_op[uses.ops], uses.rows], axis=1)[~uses.on_host]
    pairs = np.unique(pairs, axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(groups + 1))
    weights: list[int] = pairs[:, 1].tolist()
    return tuple(tuple(weights[start:end]) for start, end in pairwise(ends.tolist()))


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
    budget, used, charged = _budget(problem), 0.0, set[int]()
    chosen: list[int] = []
    for group in np.flatnonzero(groups.may_accelerate).tolist():
        used += ORT_WORKSPACE * (groups.charge(group, charged) + int(groups.output_bytes[group]))
        if used > budget:
            break
        chosen.append(group)
    return groups.place(chosen)


def accelerate_order(problem: PlacementProblem) -> Placement:
    """Hugging Face Accelerate's rule: in order, weights alone, room kept for the largest, never to come back."""
    groups = Groups.of(problem)
    largest = max((groups.alone(group) for group in range(len(groups))), default=0)
    budget, used, charged = _budget(problem) - largest, 0, set[int]()
    chosen: list[int] = []
    for group in np.flatnonzero(groups.may_accelerate).tolist():
        used += groups.charge(group, charged)
        if used > budget:
            break
        chosen.append(group)
    return groups.place(chosen)


def density(problem: PlacementProblem) -> Placement:
    """Most seconds saved per byte of weights first, transfers and activations ignored."""
    groups = Groups.of(problem)
    saved = np.bincount(groups.of_op, problem.seconds[HOST] - problem.seconds[ACCELERATOR], len(groups))
    alone = np.array([groups.alone(group) for group in range(len(groups))], np.float64)
    worth = np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate & (saved > 0))
    budget, charged = _budget(problem), set[int]()
    used = sum(groups.charge(group, charged) for group in np.flatnonzero(groups.must_accelerate).tolist())
    chosen: list[int] = []
    for group in sorted(worth.tolist(), key=lambda group: (-saved[group] / max(alone[group], 1e-9), group)):
        fresh = groups.fresh(group, charged)
        if used + groups.bytes_of(fresh) <= budget:
            used += groups.charge(group, charged)
            chosen.append(group)
    return groups.place(chosen)


def _budget(problem: PlacementProblem) -> float:
    budget = int(problem.budgets[ACCELERATOR])
    return float("inf") if budget == NO_BUDGET else float(budget)


BASELINES: dict[str, Callable[[PlacementProblem], Placement]] = {
    "all-cpu": all_cpu,
    "all-accelerator": all_accelerator,
    "fill-in-order": fill_in_order,
    "accelerate-order": accelerate_order,
    "density": density,
}
