from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.errors import InvalidBundleError
from hetpart.graph.granted import Granted
from hetpart.plan.io import read_plan, write_plan
from hetpart.plan.model import Buffer, Plan, Transfer
from hetpart.plan.timeline import Task, TaskKind
from hetpart.plan.verify import RULES, violations
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
FIRST, SECOND = PLAN.partitions
EMBEDDED, WIDE, SCORE = PLAN.buffers
assert PLAN.timeline is not None
TIMELINE = PLAN.timeline
HOST_TASK, COPY_TASK, WIDE_TASK, TASK, LAST_TASK = TIMELINE.tasks


def timed(*tasks: Task) -> Plan:
    """The plan with these tasks."""
    return replace(PLAN, timeline=replace(TIMELINE, tasks=tasks))


BROKEN: dict[str, Plan] = {
    "a plan has a host": replace(PLAN, devices=()),
    "devices have names of their own": replace(PLAN, devices=PLAN.devices * 2),
    "devices are listed": replace(PLAN, transfers=(replace(PLAN.transfers[0], target="cuda:1"),)),
    "providers are known": replace(PLAN, devices=(replace(PLAN.devices[0], provider="Abacus"), PLAN.devices[1])),
    "values are listed": replace(PLAN, transfers=(Transfer("nowhere", "cpu", "cuda:0", 1, 0.0, 1),)),
    "partitions have numbers of their own": replace(PLAN, partitions=(FIRST, replace(SECOND, id=0))),
    "values are made before they are used": replace(PLAN, partitions=(SECOND, FIRST)),
    "values are on a device before they are read there": replace(PLAN, transfers=PLAN.transfers[1:]),
    "host inputs are inputs": replace(PLAN, partitions=(FIRST, replace(SECOND, host_inputs=("score",)))),
    "copies and buffers lie within the run": replace(PLAN, transfers=(replace(PLAN.transfers[0], step=3),)),
    "values held by address are numbers": replace(
        PLAN, values=(replace(PLAN.values[0], dtype="string"), PLAN.values[1])
    ),
    "values of planned size have one": replace(
        PLAN, values=(replace(PLAN.values[0], shape=(None, 3120)), PLAN.values[1])
    ),
    "a value is described in one way": replace(PLAN, values=(*PLAN.values, replace(PLAN.outputs[0], dtype="int32"))),
    "buffers hold their values": replace(PLAN, buffers=(replace(EMBEDDED, nbytes=798_719), WIDE, SCORE)),
    "buffers in use do not overlap": replace(PLAN, buffers=(EMBEDDED, replace(WIDE, offset=798_719), SCORE)),
    "sizes are not negative": replace(PLAN, transfers=(replace(PLAN.transfers[0], nbytes=-1),)),
    "conditions compare sizes of inputs": replace(PLAN, granted=Granted((), ("rows > 2",))),
    "a certificate adds up": replace(PLAN, certificate=replace(PLAN.certificate, lower_bound=1.0)),
    "figures are the sums of their parts": replace(PLAN, prediction=replace(PLAN.prediction, seconds=1.0)),
    "decisions say where ops are": replace(PLAN, decisions=(replace(PLAN.decisions[0], device="elsewhere"),)),
    "a timeline has every partition and copy once": timed(HOST_TASK, COPY_TASK, WIDE_TASK, TASK),
    "tasks wait for tasks before them": timed(HOST_TASK, COPY_TASK, WIDE_TASK, TASK, replace(LAST_TASK, after=(4,))),
    "tasks are on their lanes": timed(HOST_TASK, COPY_TASK, WIDE_TASK, replace(TASK, lane="cpu"), LAST_TASK),
    "tasks start when what they wait for is done": timed(
        HOST_TASK, COPY_TASK, WIDE_TASK, TASK, replace(LAST_TASK, start=0.000_59)
    ),
    "tasks wait for what they read": timed(HOST_TASK, COPY_TASK, WIDE_TASK, replace(TASK, after=(1,)), LAST_TASK),
    "tasks wait until what they write over is done with": replace(
        PLAN, buffers=(EMBEDDED, WIDE, replace(SCORE, offset=0, first=2))
    ),
}


def test_a_plan_that_is_consistent_breaks_no_rule() -> None:
    assert list(violations(PLAN)) == []


@pytest.mark.parametrize(
    "broken",
    [
        replace(PLAN, certificate=replace(PLAN.certificate, gap=0.5)),
        replace(PLAN, certificate=replace(PLAN.certificate, lower_bound=-1.0)),
        replace(PLAN, devices=(PLAN.devices[0], replace(PLAN.devices[1], peak_bytes=1))),
        replace(PLAN, decisions=(replace(PLAN.decisions[0], partition=7),)),
    ],
)
def test_figures_that_contradict_each_other_are_told(broken: Plan) -> None:
    assert list(violations(broken))


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES])
def test_every_rule_is_broken_by_a_plan(rule: str) -> None:
    assert rule in {broken.split(":")[0] for broken in violations(BROKEN[rule])}


@pytest.mark.parametrize("plan", BROKEN.values(), ids=BROKEN)
def test_a_plan_that_contradicts_itself_is_neither_written_nor_read(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError):
        write_plan(plan)
    monkeypatch.setattr("hetpart.plan.io.violations", lambda _: ())
    data = write_plan(plan)
    monkeypatch.undo()
    with pytest.raises(InvalidBundleError, match="contradicts itself"):
        read_plan(data, "plan.json")


@pytest.mark.parametrize(
    "step",
    [replace(PLAN, transfers=(replace(PLAN.transfers[0], step=-1),)), replace(PLAN, buffers=(replace(WIDE, first=2),))],
)
def test_steps_before_the_start_or_out_of_order_are_found(step: Plan) -> None:
    assert "copies and buffers lie within the run: " in next(violations(step))


def test_an_output_that_nothing_makes_is_found() -> None:
    plan = replace(PLAN, partitions=(FIRST, replace(SECOND, outputs=())), transfers=PLAN.transfers[:2])
    assert "values are made before they are used: score" in violations(plan)
    assert list(violations(replace(plan, passthrough={"score": "ids"}, timeline=None))) == []


def test_bytes_may_be_shared_at_different_times_and_on_different_devices() -> None:
    later = Buffer("wide", "cuda:0", 0, 256, 2, 2)
    elsewhere = Buffer("wide", "cpu", 0, 256, 1, 1)
    empty = Buffer("wide", "cuda:0", 10, 0, 1, 1)
    for other in (later, elsewhere):
        assert list(violations(replace(PLAN, buffers=(EMBEDDED, other), timeline=None))) == []
    assert "overlap" not in " ".join(violations(replace(PLAN, buffers=(EMBEDDED, empty))))


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [("float32", (3, 5), 60), ("int4", (3,), 2), ("float16", (), 2), ("int64", (0, 7), 0), ("float8e4m3fn", (9,), 9)],
)
def test_a_buffer_is_as_large_as_its_value(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    values = (PLAN.values[0], replace(PLAN.values[1], dtype=dtype, shape=shape, nbytes=nbytes))
    assert list(violations(replace(PLAN, values=values, buffers=(replace(WIDE, nbytes=nbytes),)))) == []
    assert list(violations(replace(PLAN, values=values, buffers=(replace(WIDE, nbytes=nbytes - 1),))))


def test_an_older_plan_has_no_timeline() -> None:
    assert list(violations(replace(PLAN, timeline=None, revision=0))) == []


@pytest.mark.parametrize(
    ("tasks", "rule"),
    [
        ((HOST_TASK, COPY_TASK, WIDE_TASK, TASK, LAST_TASK, LAST_TASK), "partition and copy once: a task twice"),
        ((replace(HOST_TASK, index=7), COPY_TASK, WIDE_TASK, TASK, LAST_TASK), "once: partition 0, partition 7"),
        (
            (HOST_TASK, COPY_TASK, WIDE_TASK, TASK, replace(LAST_TASK, after=(-1,))),
            "wait for tasks before them: copy 2",
        ),
        ((HOST_TASK, COPY_TASK, WIDE_TASK, TASK, replace(LAST_TASK, end=float("inf"))), "is done: copy 2"),
        ((HOST_TASK, COPY_TASK, WIDE_TASK, TASK, replace(LAST_TASK, after=())), "what they read: score on cuda:0"),
    ],
)
def test_a_timeline_that_cannot_be_is_found(tasks: tuple[Task, ...], rule: str) -> None:
    assert any(rule in broken for broken in violations(timed(*tasks)))


def test_bytes_are_written_over_only_after_their_last_reader() -> None:
    """On its lane a task waits for the one before; what is copied meanwhile is not waited for."""
    later = Transfer("wide", "cuda:0", "cpu", 256, 10.0e-6, step=2)
    plan = replace(PLAN, transfers=(*PLAN.transfers, later), buffers=(EMBEDDED, WIDE, replace(SCORE, offset=798_720)))
    copied = Task(TaskKind.COPY, 3, "cuda:0->cpu", 0.000_397_4, 0.000_407_4, (2,))
    rule = "tasks wait until what they write over is done with: wide and score on cuda:0"
    raced = (HOST_TASK, COPY_TASK, WIDE_TASK, copied, TASK, replace(LAST_TASK, after=(4,)))
    assert rule in set(violations(replace(plan, timeline=replace(TIMELINE, tasks=raced))))
