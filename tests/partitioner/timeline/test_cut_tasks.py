"""The tasks of a cut against what the problem says of it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import Cut, cut
from hetpart.partitioner.timeline.cut_tasks import CutTasks, lane_names
from hetpart.partitioner.timeline.schedule import one_by_one
from tests.partitioner.problems import placements, random_problem

PROBLEMS = [random_problem(seed, most_ops=10, sessions=True) for seed in range(150)]


def test_one_after_another_they_take_what_the_serial_model_says() -> None:
    for problem in PROBLEMS:
        for placement in islice(placements(problem), 0, 60, 7):
            found = cut(problem, placement)
            tasks = CutTasks.of(problem, placement, found).tasks
            serial = problem.cost(placement) + problem.session_seconds[found.devices].sum()
            assert one_by_one(tasks) == pytest.approx(serial, rel=1e-12, abs=1e-15)


def test_tasks_wait_for_all_that_makes_what_they_read_and_for_nothing_else() -> None:
    for problem in PROBLEMS[:60]:
        for placement in islice(placements(problem), 0, 40, 9):
            partitions = cut(problem, placement)
            found = CutTasks.of(problem, placement, partitions)
            waits = {(first, then) for then, own in enumerate(found.tasks.after) for first in own}
            assert all(first < then for first, then in waits)
            assert waits == expected_waits(problem, placement, partitions, found)


def expected_waits(
    problem: PlacementProblem, placement: Placement, partitions: Cut, found: CutTasks
) -> set[tuple[int, int]]:
    """By plain loops over values and their readers."""
    copies = {
        (int(found.held.value[row]), int(found.held.device[row])): int(task)
        for row, task in zip(found.copies, found.of_copy, strict=True)
    }
    home = problem.home(placement)
    waits: set[tuple[int, int]] = set()
    for value in range(problem.values):
        producer = problem.value_producer[value]
        maker = None if producer == NO_OP else int(found.of_partition[partitions.partition[producer]])
        waits |= {(maker, task) for (other, _), task in copies.items() if other == value and maker is not None}
        row = slice(*problem.value_uses.offsets[value : value + 2])
        for op, on_host in zip(problem.value_uses.ops[row], problem.value_uses.on_host[row], strict=True):
            device = 0 if on_host else int(placement[op])
            reader = int(found.of_partition[partitions.partition[op]])
            source = maker if device == home[value] else copies.get((value, device))
            if maker != reader and source is not None:
                waits.add((source, reader))
    return waits


def test_lanes_are_devices_and_directions() -> None:
    assert lane_names(("cpu", "cuda:0"))[:2] == ("cpu", "cuda:0")
    for problem in PROBLEMS[:60]:
        placement = next(placements(problem))
        partitions = cut(problem, placement)
        found = CutTasks.of(problem, placement, partitions)
        assert [found.tasks.lanes[task] for task in found.of_partition] == partitions.devices.tolist()
        names = lane_names(problem.devices)
        home = problem.home(placement)
        for row, task in zip(found.copies, found.of_copy, strict=True):
            ends = home[found.held.value[row]], found.held.device[row]
            assert names[found.tasks.lanes[task]] == "->".join(problem.devices[end] for end in ends)


def test_copies_are_as_many_as_the_serial_model_pays_for() -> None:
    """But for those that a session makes for kernels of its own, which are in its partition's seconds."""
    for problem in PROBLEMS:
        placement = next(placements(problem))
        found = CutTasks.of(problem, placement, cut(problem, placement))
        assert len(found.copies) <= np.count_nonzero(problem.copies(placement))
