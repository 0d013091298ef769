"""A smaller problem that no placement is dearer in: ops that matter little go where what they read is made.

A bias that is added, a reshape, a transposition of little: an op that reads one value takes part in its maker. Its
seconds are those of the device where it takes least, whichever it is on; what it holds counts for nothing; and the
value that it makes is one with the value that it reads, copied in the seconds of the cheaper and held in the bytes of
the smaller. So every placement of the problem is one of the smaller problem too, in as many sessions, that costs no
more and holds no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP, Reorders
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

LIGHT = 1e-4
"""Of the budget, what the weights of an op take at most that takes part in another."""


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """The smaller problem, and which op of it every op takes part in."""

    problem: PlacementProblem
    of_op: NDArray[np.int64]

    def placed(self, placement: Placement) -> Placement:
        """A placement of the smaller problem, of every op."""
        return placement[self.of_op]


def coarsened(problem: PlacementProblem, loss: float) -> Coarse:
    """``problem`` with fewer ops: the seconds of those that are gone are too low by ``loss`` at most, all together."""
    into, one_with = np.arange(problem.ops), np.arange(problem.values)
    special = (problem.states, problem.stands_for_weight, problem.value_kept)
    if all(one is None for one in special):
        for op, (read, made) in sorted(_followers(problem, loss).items()):
            maker = problem.value_producer[read]
            goes_with_it = problem.groups[op] == problem.groups[maker]
            if goes_with_it and problem.groups[op] != problem.groups[into[maker]]:
                continue  # its maker takes part in an op of another group
            into[op] = into[maker]
            one_with[made] = one_with[read]
    return Coarse(_merged(problem, into, one_with), np.unique(into, return_inverse=True)[1])


def _followers(problem: PlacementProblem, loss: float) -> dict[int, tuple[int, int]]:
    """Ops that take part in another → the values that they read and make."""
    found, light = _passed_on(problem), _weights(problem) <= LIGHT * problem.budgets[ACCELERATOR]
    with np.errstate(invalid="ignore"):
        apart = np.abs(problem.seconds[HOST] - problem.seconds[ACCELERATOR])
    free = {op for op, (read, _) in found.items() if problem.groups[op] == problem.groups[problem.value_producer[read]]}
    others = sorted((float(apart[op]), op) for op in found.keys() - free if light[op] and np.isfinite(apart[op]))
    spent = np.cumsum([seconds for seconds, _ in others])
    kept = free | {op for (_, op), so_far in zip(others, spent.tolist(), strict=True) if so_far <= loss}
    return {op: found[op] for op in kept}


def _weights(problem: PlacementProblem) -> NDArray[np.float64]:
    """(N,) Bytes of the weights that each op reads."""
    uses = problem.weight_uses
    return np.bincount(uses.ops, problem.weight_bytes[uses.rows], problem.ops).astype(np.float64)


def _passed_on(problem: PlacementProblem) -> dict[int, tuple[int, int]]:
    """Ops that read one value, which another op makes, and make one."""
    uses, makers, runs = problem.value_uses, problem.value_producer, problem.in_sessions
    plain = ~problem.value_left_on_host
    if problem.reorders is not None:
        plain[problem.reorders.values] = False
    made = np.flatnonzero(makers != NO_OP)
    one = np.bincount(uses.ops, minlength=problem.ops) == 1
    one &= (np.bincount(makers[made], minlength=problem.ops) == 1) & runs
    read_by, made_by = np.full((2, problem.ops), -1, np.int64)
    fit = ~uses.on_host & (plain & (makers != NO_OP))[uses.rows]
    read_by[uses.ops[fit]] = uses.rows[fit]
    made = made[plain[made]]
    made_by[makers[made]] = made
    found = np.flatnonzero(one & (read_by >= 0) & (made_by >= 0))
    found = found[runs[makers[read_by[found]]]]
    return {op: (int(read_by[op]), int(made_by[op])) for op in found.tolist()}


def _merged(problem: PlacementProblem, into: NDArray[np.int64], one_with: NDArray[np.int64]) -> PlacementProblem:
    ops, of_op = np.unique(into, return_inverse=True)
    values, of_value = np.unique(one_with, return_inverse=True)
    stays = into == np.arange(problem.ops)
    own = problem.groups[into] == problem.groups  # it is on that device in any case
    returned, nbytes = np.zeros(len(values), np.bool_), problem.value_bytes[values]
    np.logical_or.at(returned, of_value, problem.value_returned)
    np.minimum.at(nbytes, of_value, problem.value_bytes)
    copied = problem.copy_seconds[:, :, values]
    for home, target in np.ndindex(copied.shape[:2]):
        np.minimum.at(copied[home, target], of_value, problem.copy_seconds[home, target])
    makers = problem.value_producer[values]
    reorders, weights = problem.reorders, problem.weight_uses
    return replace(
        problem,
        seconds=_seconds(problem, own, of_op),
        groups=np.unique(problem.groups[ops], return_inverse=True)[1].astype(np.int32),
        scratch_bytes=problem.scratch_bytes[ops],
        value_producer=np.where(makers == NO_OP, NO_OP, of_op[makers]).astype(np.int32),
        value_left_on_host=problem.value_left_on_host[values],
        value_returned=returned,
        value_bytes=nbytes,
        value_uses=_uses(problem.value_uses, stays, of_op, of_value),
        copy_seconds=copied,
        weight_uses=_uses(weights, own, of_op, np.arange(len(problem.weight_bytes))),
        streaming=None,
        apart=None if problem.apart is None else problem.apart[ops],
        reorders=None if reorders is None else Reorders(of_op[reorders.ops], of_value[reorders.values]),
    )


def _seconds(problem: PlacementProblem, own: NDArray[np.bool_], of_op: NDArray[np.int64]) -> NDArray[np.float64]:
    seconds = np.where(own, problem.seconds, problem.seconds.min(axis=0))
    return np.stack([np.bincount(of_op, of_device) for of_device in seconds]).astype(np.float64)


def _uses(uses: Uses, kept: NDArray[np.bool_], of_op: NDArray[np.int64], of_row: NDArray[np.int64]) -> Uses:
    """Uses of the ops that are ``kept``, by their new numbers and those of rows."""
    here = np.flatnonzero(kept[uses.ops])
    rows, ops = of_row[uses.rows[here]], of_op[uses.ops[here]]
    order = np.lexsort((ops, rows))
    offsets = np.searchsorted(rows[order], np.arange(int(of_row.max(initial=-1)) + 2))
    return Uses(offsets.astype(np.int64), ops[order].astype(np.int32), uses.on_host[here][order])
