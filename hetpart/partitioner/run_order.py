"""The order that ONNX Runtime gives ops in a session, where less is alive in it than in the order of the file.

ONNX Runtime walks from what nobody reads towards the inputs, what comes last in the file first, and runs each op once
all that it reads is there. A file that has two branches side by side, one op of each in turn, keeps what both hold; the
walk ends one branch before it begins the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.session.order import walk
from hetpart.partitioner.problem import NO_OP, Known, Reorders
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.liveness import crossing_values, inside
from hetpart.partitioner.search.solve import NothingFitsError
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.liveness import Packed
    from hetpart.partitioner.scores.scoring import Packing
    from hetpart.partitioner.search.solve import BaselineResult, Solution

LESS = 0.01
"""Of what is alive in one session, by which the walk has to have less: planning in two orders takes twice the time."""
IN_BOTH_ORDERS = "; ops in the order of the file, or as ONNX Runtime walks through it"
MOST_OPS = 20_000
"""Up to which it is looked for."""


def run_order(problem: PlacementProblem) -> NDArray[np.int64] | None:
    """(N,) Ops in the order of the walk; None where one session of all ops holds as much in it as in the file's."""
    if not 1 < problem.ops <= MOST_OPS:
        return None
    order = np.array(walk(range(problem.ops), _sources(problem)), np.int64)
    before, after = most_alive(problem), most_alive(in_order(problem, order))
    return order if after < (1 - LESS) * before else None


def most_alive(problem: PlacementProblem) -> int:
    """Bytes alive at the peak of one session of all ops, beside what the caller gives and gets."""
    whole = Cut(np.zeros(problem.ops, np.int32), np.zeros(1, np.int8))
    return int(inside(problem, whole, crossing_values(problem, whole)).peaks.max(initial=0))


def _sources(problem: PlacementProblem) -> list[set[int]]:
    """Per op: those that make what it reads."""
    uses = problem.value_uses
    producers = problem.value_producer[uses.rows]
    made = problem.made[uses.rows]
    found = [set[int]() for _ in range(problem.ops)]
    users: list[int] = uses.ops[made].tolist()
    for user, producer in zip(users, producers[made].tolist(), strict=True):
        found[user].add(producer)
    return found


def in_order(problem: PlacementProblem, order: NDArray[np.int64]) -> PlacementProblem:
    """The problem whose op ``i`` is ``order[i]`` of ``problem``."""
    number = _numbers(order)
    producer = problem.value_producer
    states, reorders = problem.states, problem.reorders
    return replace(
        problem,
        seconds=problem.seconds[:, order],
        groups=problem.groups[order],
        scratch_bytes=problem.scratch_bytes[order],
        value_producer=np.where(producer == NO_OP, NO_OP, number[producer]).astype(np.int32),
        value_uses=_renumbered(problem.value_uses, number),
        weight_uses=_renumbered(problem.weight_uses, number),
        states=None if states is None else states.among(np.arange(problem.values), number),
        apart=None if problem.apart is None else problem.apart[order],
        reorders=None if reorders is None else Reorders(number[reorders.ops], reorders.values),
    )


def solved_in_both_orders(
    problem: PlacementProblem,
    order: NDArray[np.int64],
    packing: Packing,
    known: Known,
    solve: Callable[[PlacementProblem, Packing, Known], Solution],
) -> Solution:
    """The best of both, with the bound that holds for both.

    Args:
        problem: In the order of the file.
        order: Its ops in the other one.
        packing: Of placements of ``problem``.
        known: Of ``problem``.
        solve: Finds a placement that fits, and a bound, in the order that a problem has.

    Raises:
        NothingFitsError: nothing fits in either.
    """
    number = _numbers(order)
    found, refused = list["Solution"](), list[NothingFitsError]()

    def packed(placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None) -> Packed:
        return packing(placement[number], _renumbered_cut(cut, number), streamed)

    starts = Known(tuple((placement[order], streamed) for placement, streamed in known.starts))
    for attempt in (
        lambda: solve(problem, packing, known),
        lambda: _as_in_file(solve(in_order(problem, order), packed, starts), number),
    ):
        try:
            found.append(attempt())
        except NothingFitsError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return _best(found)


def _as_in_file(solution: Solution, number: NDArray[np.int64]) -> Solution:
    return replace(
        solution,
        placement=solution.placement[number],
        cut=_renumbered_cut(solution.cut, number),
        baselines=tuple(replace(rule, placement=rule.placement[number]) for rule in solution.baselines),
    )


def _best(found: list[Solution]) -> Solution:
    best = min(found, key=lambda one: one.total_seconds)
    if len(found) == 1:
        return best
    bound, of_all = (min(best.cost, *(getattr(one, of) for one in found)) for of in ("lower_bound", "bound_of_all"))
    return replace(
        best, lower_bound=bound, bound_of_all=of_all, gap=gap(best.cost, bound), baselines=_rules(found),
        speaks_of=f"{best.speaks_of}{IN_BOTH_ORDERS}",
    )  # fmt: skip


def _rules(found: Sequence[Solution]) -> tuple[BaselineResult, ...]:
    """Every rule in the order in which its placement holds less."""
    every = zip(*(one.baselines for one in found), strict=True)
    return tuple(min(same, key=lambda rule: (not rule.fits, rule.peak_bytes)) for same in every)


def _numbers(order: NDArray[np.int64]) -> NDArray[np.int64]:
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number


def _renumbered(uses: Uses, number: NDArray[np.int64]) -> Uses:
    ops = number[uses.ops]
    order = np.lexsort((ops, uses.rows))
    return Uses(uses.offsets, ops[order].astype(np.int32), uses.on_host[order])


def _renumbered_cut(cut: Cut, number: NDArray[np.int64]) -> Cut:
    return Cut(cut.partition[number], cut.devices)
