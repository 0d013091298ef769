"""What simpler rules would do: the placements ours is compared with, and never worse than.

A group goes where its first op in topological order goes. Whatever a rule says, an op runs only where it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.mincut import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, Placement, PlacementProblem, unique_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

ORT_WORKSPACE = 1.5
"""ONNX Runtime multiplies what it counts by this, for workspaces it cannot see."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightRows:
    """Weights by the group that reads them on its own device, as compressed rows."""

    offsets: NDArray[np.int64]
    weights: NDArray[np.int64]

    def __getitem__(self, group: int) -> list[int]:
        return self.weights[self.offsets[group] : self.offsets[group + 1]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        weights: list[int] = self.weights.tolist()
        ends: list[int] = self.offsets.tolist()
        return (weights[start:end] for start, end in pairwise(ends))

    def sums(self, figures: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per group: the sum of the (W,) figures of its weights."""
        return np.diff(np.concatenate([[0], figures[self.weights].cumsum()])[self.offsets])

    def first_in(self, order: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Per entry: whether its group is the first of ``order`` to read the weight. Groups left out read none."""
        turn = np.full(len(self.offsets) - 1, len(order), np.int64)
        turn[order] = np.arange(len(order))
        of_entry = np.repeat(turn, np.diff(self.offsets))
        earliest = np.full(int(self.weights.max(initial=-1)) + 1, len(order), np.int64)
        np.minimum.at(earliest, self.weights, of_entry)
        return (of_entry == earliest[self.weights]) & (of_entry < len(order))


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of a problem in order of their first op, with what each would add to the accelerator."""

    of_op: NDArray[np.int64]
    """(N,) Position of each op's group."""
    may_accelerate: NDArray[np.bool_]
    must_accelerate: NDArray[np.bool_]
    weights: WeightRows
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
        side[np.fromiter(chosen, np.int64)] = True
        return (side & self.may_accelerate)[self.of_op].astype(np.int8)

    def charges(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per group: bytes it is charged when groups are charged in this order, each weight once."""
        first = self.weights.first_in(order)
        rows = np.repeat(np.arange(len(self)), np.diff(self.weights.offsets))[first]
        total = np.zeros(len(self), np.int64)
        np.add.at(total, rows, self.weight_bytes[self.weights.weights[first]])
        return total

    def alone(self) -> NDArray[np.int64]:
        """Per group: bytes of all the weights it reads."""
        return self.weights.sums(self.weight_bytes)


def _weights_of(problem: PlacementProblem, of_op: NDArray[np.int64], groups: int) -> WeightRows:
    uses = problem.weight_uses
    here = ~uses.on_host
    readers, weights = unique_pairs(of_op[uses.ops[here]], uses.rows[here])
    return WeightRows(np.searchsorted(readers, np.arange(groups + 1)), weights)


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


def earliest_finish(problem: PlacementProblem) -> Placement:
    """List scheduling: every group where its first op would finish earliest, as long as its weights fit."""
    from hetpart.partitioner import earliest  # it is told in terms of the groups here

    return earliest.earliest_finish(problem)


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
