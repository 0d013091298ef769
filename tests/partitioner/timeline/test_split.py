"""Splits whose worth is known by hand, and what every split keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import Cut, cut
from hetpart.partitioner.timeline.bounds import lower_bound
from hetpart.partitioner.timeline.finest import finest_tasks
from hetpart.partitioner.timeline.split import Worth, splits
from hetpart.partitioner.timeline.timed import Timed
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import placements, random_problem, with_calls
from tests.partitioner.timeline.instances import least_seconds

INF = float("inf")


def problem(
    devices: str, seconds: list[float], edges: list[tuple[int, int]], *, session: float = 0.0, copy: float = 1.0
) -> PlacementProblem:
    """Ops on the host (``h``) or the accelerator (``a``), of these seconds; every op makes one value."""
    ops = len(devices)
    there = np.array([device == "a" for device in devices])
    copies = np.zeros((2, 2, ops))
    copies[0, 1] = copies[1, 0] = copy
    last = {producer for producer, _ in edges}
    return PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=np.array([np.where(there, INF, seconds), np.where(there, seconds, INF)]),
        groups=np.arange(ops, dtype=np.int32),
        scratch_bytes=np.zeros(ops, np.int64),
        value_producer=np.arange(ops, dtype=np.int32),
        value_left_on_host=np.zeros(ops, np.bool_),
        value_returned=np.array([op not in last for op in range(ops)]),
        value_bytes=np.full(ops, 10, np.int64),
        value_uses=Uses.from_rows([[(user, False) for maker, user in edges if maker == op] for op in range(ops)]),
        copy_seconds=copies,
        weight_bytes=np.zeros(0, np.int64),
        weight_uses=Uses.from_rows([]),
        budgets=np.array([NO_BUDGET, NO_BUDGET]),
        session_seconds=np.full(2, session),
        session_bytes=np.array([0, 5]),
    )


def found(asked: PlacementProblem, worth: Worth = Worth(), atoms: list[int] | None = None) -> list[Timed]:  # noqa: B008
    placement = np.argmin(asked.seconds, axis=0).astype(np.int8)
    atoms = list(range(asked.ops)) if atoms is None else atoms
    return splits(asked, placement, cut(asked, placement), atoms, worth)


EARLY_COPY = "hhah", [2.0, 3.0, 3.0, 1.0], [(0, 2), (1, 3), (2, 3)]
"""Host op 0 feeds the accelerator, host op 1 does not, host op 3 needs both."""
EARLY_START = "haa", [4.0, 3.0, 3.0], [(0, 2), (1, 2)]
"""Accelerator op 1 needs nothing of the host, op 2 does."""


def test_an_early_copy() -> None:
    before, after = found(problem(*EARLY_COPY))
    # 2 and 3 on the host, copy, 3, copy, 1. Then 2, copy, 3, copy, 1, and the other 3 meanwhile.
    assert (before.seconds, after.seconds) == (11.0, 8.0)
    assert after.cut.partition.tolist() == [0, 1, 2, 3]
    assert after.cut.devices.tolist() == [0, 0, 1, 0]


def test_an_early_start() -> None:
    before, after = found(problem(*EARLY_START))
    # 4, copy, both. Then one of them meanwhile. The result is copied to the caller in 1.
    assert (before.seconds, after.seconds) == (12.0, 9.0)


def test_a_split_pays_for_its_session() -> None:
    assert [timed.seconds for timed in found(problem(*EARLY_COPY, session=0.5))] == [12.5, 9.5]
    # It would save 3, less than a session takes.
    assert len(found(problem(*EARLY_COPY, session=3.5))) == 1


@pytest.mark.parametrize("worth", [Worth(partitions=3), Worth(seconds=3.1), Worth(share=0.3)])
def test_limits_are_kept(worth: Worth) -> None:
    assert len(found(problem(*EARLY_COPY), worth)) == 1


@pytest.mark.parametrize("worth", [Worth(partitions=4), Worth(seconds=2.9), Worth(share=0.27)])
def test_what_limits_allow_is_done(worth: Worth) -> None:
    assert [timed.cut.partitions for timed in found(problem(*EARLY_COPY), worth)] == [3, 4]


def test_ops_that_are_one_are_not_parted() -> None:
    assert len(found(problem(*EARLY_COPY), atoms=[0, 0, 1, 2])) == 1


def test_a_split_that_does_not_fit_is_not_made() -> None:
    asked = problem(*EARLY_START)
    assert len(found(asked)) == 2
    placement = np.argmin(asked.seconds, axis=0).astype(np.int8)
    peak = check(asked, placement, cut(asked, placement)).peaks[1]
    # The second session takes 5 bytes, and what passes between both 10 more.
    assert len(found(replace(asked, budgets=np.array([NO_BUDGET, peak + 4])))) == 1


def test_a_pipeline_through_many_values() -> None:
    """Each of four host ops feeds an accelerator op of its own."""
    devices, seconds = "hhhhaaaa", [2.0] * 8
    chain = found(problem(devices, seconds, [(i, i + 4) for i in range(4)], copy=0.1))
    assert chain[0].seconds == pytest.approx(8 + 4 * 0.1 + 8 + 4 * 0.1)
    assert chain[-1].seconds < 0.7 * chain[0].seconds


def test_many_values_that_arrive_last_hide_no_early_start() -> None:
    """Gradients of eight biases come at the end: the large updates need none of them."""
    edges = [(0, 2), (1, 3), *((1, user) for user in range(4, 12)), (0, 1)]
    devices, seconds = "aa" + "h" * 10, [4.0, 4.0, 4.0, *[0.1] * 9]
    made = found(problem(devices, seconds, edges, copy=0.1))
    # 4, copy, 4 of the host beside 4 of the accelerator; then the rest.
    assert made[-1].seconds < made[0].seconds - 3.0


def test_two_lanes_are_split_together() -> None:
    """Four gradients in one partition, their updates in another: to part one of them alone saves nothing."""
    edges = [(0, 1), (1, 2), (2, 3), *((maker, maker + 4) for maker in range(4))]
    made = found(problem("aaaahhhh", [2.0] * 8, edges, copy=0.1))
    assert made[0].seconds == pytest.approx(8 + 4 * 0.1 + 8)
    assert made[-1].seconds == pytest.approx(8 + 0.1 + 2)


def backward_pass(layers: int) -> tuple[PlacementProblem, list[Timed]]:
    """Gradients of ``layers`` weights on the accelerator, and of their biases in no time; their updates on the host."""
    weights, biases = range(layers), range(layers, 2 * layers)
    edges = [*pairwise(weights), *zip(weights, biases, strict=True)]
    edges += [(maker, maker + 2 * layers) for maker in range(2 * layers)]
    seconds = [*[2.0] * layers, *[1e-3] * layers, *[1.5] * layers, *[0.2] * layers]
    asked = problem("a" * 2 * layers + "h" * 2 * layers, seconds, edges, copy=0.01)
    asked = replace(asked, value_returned=np.zeros(4 * layers, np.bool_))
    return asked, found(asked)


def test_what_is_made_in_no_time_leaves_with_what_it_is_made_of() -> None:
    """No update of a bias waits for the last layer's gradient, and none takes a split of its own."""
    layers = 9
    _, made = backward_pass(layers)
    of = made[-1].cut.partition.tolist()
    assert [of[layers + layer] for layer in range(layers - 1)] == of[: layers - 1]
    assert made[-1].seconds == pytest.approx(2.0 * layers + 1.7, abs=0.1)


def summed(layers: int) -> PlacementProblem:
    """Gradients on the accelerator, each added there to a sum by what runs apart; the host updates with the sums."""
    edges = [*pairwise(range(layers)), *((op, op + layers) for op in range(2 * layers))]
    seconds = [*[2.0] * layers, *[0.25] * layers, *[2.0] * layers]
    asked = problem("a" * 2 * layers + "h" * layers, seconds, edges, copy=0.5)
    apart = np.arange(3 * layers) // layers == 1
    return replace(asked, apart=apart, value_returned=np.zeros(3 * layers, np.bool_))


def test_an_update_begins_when_its_sum_is_ready() -> None:
    made = found(summed(2))
    # Both gradients in 4, both sums in 0.5, two copies in 1, both updates in 4.
    # Then a gradient and its sum, the other gradient and sum: 4.5. The second's copy and update follow it in 2.5.
    assert (made[0].seconds, made[-1].seconds) == (9.5, 7.0)
    assert made[-1].cut.partitions == 2 * made[0].cut.partitions == 6


def test_every_update_begins_when_its_sum_is_ready() -> None:
    layers = 8
    made = found(summed(layers))
    assert made[0].seconds == 2.0 * layers + 0.25 * layers + 0.5 * layers + 2.0 * layers
    assert made[-1].seconds == 2.0 * layers + 0.25 * layers + 0.5 + 2.0


def test_partitions_are_numbered_as_they_begin() -> None:
    asked, made = backward_pass(9)
    placement = np.argmin(asked.seconds, axis=0).astype(np.int8)
    in_order = made[-1].in_order()
    again = Timed.of(asked, placement, in_order)
    begins = [again.schedule.start[task] for task in again.found.of_partition.tolist()]
    assert begins == sorted(begins)
    assert again.seconds == pytest.approx(made[-1].seconds)
    # Gradients that are updated with at once are not all held until the last one is there.
    assert check(asked, placement, in_order).peaks[0] < check(asked, placement, made[-1].cut).peaks[0] / 2


def test_no_cut_is_faster_than_the_finest_bound() -> None:
    """Of cuts into runs of neighbouring ops all, the one into the fewest partitions, and what that is split into."""
    for seed in range(75):
        asked = random_problem(seed, most_ops=6, sessions=True)
        for placement in islice(placements(asked), 0, 64, 13):
            least = lower_bound(finest_tasks(asked, placement))
            assert least <= least_seconds(finest_tasks(asked, placement)) * (1 + 1e-12)
            fewest = cut(asked, placement)
            split = [timed.cut for timed in splits(asked, placement, fewest, range(asked.ops), Worth())]
            for any_cut in (*runs_of_ops(asked, placement), *split):
                found = Timed.of(asked, placement, any_cut)
                assert least <= found.seconds * (1 + 1e-12)


def runs_of_ops(asked: PlacementProblem, placement: Placement) -> Iterator[Cut]:
    devices = placement.tolist()

    def go_on(op: int, joined: tuple[int, ...], begun: tuple[int, ...]) -> Iterator[Cut]:
        if op == asked.ops:
            yield Cut(np.array(joined, np.int32), np.array(begun, np.int8))
            return
        last = max((index for index, device in enumerate(begun) if device == devices[op]), default=None)
        if last is not None and last == len(begun) - 1:
            yield from go_on(op + 1, (*joined, last), begun)
        yield from go_on(op + 1, (*joined, len(begun)), (*begun, devices[op]))

    return go_on(0, (), ())


def test_every_split_is_legal_and_faster() -> None:
    made = 0
    for seed in range(160):
        asked = random_problem(seed, most_ops=10, sessions=seed % 2 == 0, budget=0.8 if seed % 3 else None)
        asked = with_calls(asked, seed) if seed % 4 == 1 else asked
        for placement in islice(placements(asked), 0, 64, 11):
            start = cut(asked, placement)
            fits = check(asked, placement, start).fits
            steps = splits(asked, placement, start, asked.groups.tolist(), Worth())
            assert steps[0].cut is start
            for before, after in pairwise(steps):
                made += 1
                assert after.seconds < before.seconds
                assert after.cut.partitions > before.cut.partitions
                verdict = check(asked, placement, after.cut)
                assert verdict.legal
                assert check(asked, placement, after.in_order()).legal
                assert verdict.fits or not fits
                for group in np.unique(asked.groups):
                    own = {int(p) for p in before.cut.partition[asked.groups == group]}
                    new = {int(p) for p in after.cut.partition[asked.groups == group]}
                    assert len(new) <= len(own)
    assert made > 50
