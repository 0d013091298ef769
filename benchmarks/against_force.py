"""The solver beside the best of all placements, on many thousands of small random problems.

    python -m benchmarks.against_force [--problems 10000] [--first 0]

A problem has up to 14 ops, with all there can be: hyperedges, shared weights, pins, groups, host operands, sessions,
liveness, and weights that may be streamed. It agrees where nothing that fits is better than the plan or cheaper than
the bound, the plan fits as the independent checker counts, a gap of 0 is the optimum, and what is refused fits nowhere.
Exit status 1 where one does not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import emit, machine_facts, say
from tests.partitioner.problems import random_problem
from tests.partitioner.streams import any_problem, layered_problem
from tests.partitioner.test_against_force import BUDGETS, assert_agrees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetpart.partitioner.problem import PlacementProblem

SAID = 500
"""Problems from one line of progress to the next."""
OPTIMAL = 1e-6


def _two_states(most_ops: int) -> Callable[[int], PlacementProblem]:
    return lambda seed: random_problem(
        seed, most_ops=most_ops, budget=BUDGETS[seed % len(BUDGETS)], sessions=seed % 4 < 2
    )


KINDS: Mapping[str, tuple[int, Callable[[int], PlacementProblem]]] = {
    "few-ops": (70, _two_states(8)),
    "two-states": (90, _two_states(14)),
    "any": (99, lambda seed: any_problem(seed, budget=(0.15, 0.3, 0.6)[seed % 3], sessions=seed % 4 < 2)),
    "layers": (100, layered_problem),
}
"""Per kind of problem: up to which of a hundred it goes, and how one is drawn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first problem")
    arguments = parser.parse_args()
    facts, start = machine_facts(), process_time()
    counts, wrong = Counter[str](), list[dict[str, Any]]()
    for seed in range(arguments.first, arguments.first + arguments.problems):
        _compare(seed, counts, wrong)
        if (seed + 1) % SAID == 0:
            say(f"against_force: {seed + 1 - arguments.first:,} problems, {len(wrong)} wrong")
    seconds = {"cpu_seconds": round(process_time() - start, 1)}
    emit("against_force", {"machine": facts, "agrees": not wrong, "counts": dict(counts), "wrong": wrong, **seconds})
    sys.exit(1 if wrong else 0)


def _compare(seed: int, counts: Counter[str], wrong: list[dict[str, Any]]) -> None:
    kind, draw = next((name, draw) for name, (upto, draw) in KINDS.items() if seed % 100 < upto)
    counts[kind] += 1
    try:
        agreed = assert_agrees(draw(seed))
    except AssertionError as error:
        wrong.append({"kind": kind, "seed": seed, "error": str(error)})
        return
    if agreed is None:
        counts["nothing fits"] += 1
        return
    found, best = agreed
    counts["optimal"] += found.total_seconds <= best.total_seconds * (1 + OPTIMAL)
    counts["streams"] += found.streamed is not None


if __name__ == "__main__":
    main()
