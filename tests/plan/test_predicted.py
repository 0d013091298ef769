"""A predicted run: its order, its seconds, and what each task touches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.plan.predicted import predicted_run
from hetpart.plan.timeline import TaskKind
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
NAMES = ["partition 0", "copy embedded", "copy wide", "partition 1", "copy score"]


@pytest.mark.parametrize("overlapped", [False, True, None])
def test_tasks_stand_by_their_starts_on_their_lanes(overlapped: bool | None) -> None:
    run = predicted_run(PLAN, overlapped=overlapped)
    assert [task.name for task in run.tasks] == NAMES
    assert [task.lane for task in run.tasks] == ["cpu", "cpu->cuda:0", "cpu->cuda:0", "cuda:0", "cuda:0->cpu"]
    assert run.lanes == ("cpu", "cuda:0", "cpu->cuda:0", "cuda:0->cpu")
    assert run.overlapped is bool(overlapped)
    assert run.seconds == pytest.approx(0.000_602_4)


def test_a_run_overlaps_by_default_where_that_pays() -> None:
    assert PLAN.timeline is not None
    paying = replace(PLAN, timeline=replace(PLAN.timeline, serial_seconds=1.0))
    assert predicted_run(paying).overlapped
    assert [task.end for task in predicted_run(paying).tasks] == [task.end for task in PLAN.timeline.tasks]


def test_a_plan_without_a_timeline_runs_one_task_after_another() -> None:
    old = replace(PLAN, timeline=None, revision=0)
    run = predicted_run(old, overlapped=True)
    assert not run.overlapped
    assert run.seconds == pytest.approx(PLAN.prediction.seconds)
    assert [task.name for task in run.tasks] == NAMES
    for task, after in zip(run.tasks, run.tasks[1:], strict=False):
        assert task.end == after.start


def test_copies_of_a_step_come_before_its_partition_and_those_of_the_last_step_at_the_end() -> None:
    early = tuple(replace(copy, step=0) for copy in PLAN.transfers[:1]) + PLAN.transfers[1:]
    run = predicted_run(replace(PLAN, transfers=early, timeline=None))
    assert [(task.kind, task.index) for task in run.tasks] == [
        (TaskKind.COPY, 0), (TaskKind.PARTITION, 0), (TaskKind.COPY, 1), (TaskKind.PARTITION, 1), (TaskKind.COPY, 2),
    ]  # fmt: skip


def test_what_kernels_keep_on_the_host_is_touched_there() -> None:
    first, second = PLAN.partitions
    plan = replace(PLAN, partitions=(first, replace(second, host_inputs=("wide",), host_outputs=("score",))))
    (task,) = (task for task in predicted_run(plan).tasks if task.name == "partition 1")
    assert task.reads == (("embedded", "cuda:0"), ("wide", "cpu"))
    assert task.makes == (("score", "cpu"),)


def test_a_plan_of_nothing_takes_no_time() -> None:
    run = predicted_run(replace(PLAN, partitions=(), transfers=(), timeline=None))
    assert (run.seconds, run.lanes, run.tasks) == (0.0, (), ())
