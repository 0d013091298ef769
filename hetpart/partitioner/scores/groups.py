"""The groups of a problem, placed as one each, and the weights they read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


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
