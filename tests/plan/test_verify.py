from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.errors import InvalidBundleError
from hetpart.plan.io import read_plan, write_plan
from hetpart.plan.model import Buffer, Plan, Transfer
from hetpart.plan.verify import RULES, violations
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
FIRST, SECOND = PLAN.partitions
EMBEDDED, WIDE, SCORE = PLAN.buffers

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
}


def test_a_plan_that_is_consistent_breaks_no_rule() -> None:
    assert list(violations(PLAN)) == []


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
    assert list(violations(replace(plan, passthrough={"score": "ids"}))) == []


def test_bytes_may_be_shared_at_different_times_and_on_different_devices() -> None:
    later = Buffer("wide", "cuda:0", 0, 256, 2, 2)
    elsewhere = Buffer("wide", "cpu", 0, 256, 1, 1)
    empty = Buffer("wide", "cuda:0", 10, 0, 1, 1)
    for other in (later, elsewhere):
        assert list(violations(replace(PLAN, buffers=(EMBEDDED, other)))) == []
    assert "overlap" not in " ".join(violations(replace(PLAN, buffers=(EMBEDDED, empty))))


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [("float32", (3, 5), 60), ("int4", (3,), 2), ("float16", (), 2), ("int64", (0, 7), 0), ("float8e4m3fn", (9,), 9)],
)
def test_a_buffer_is_as_large_as_its_value(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    values = (PLAN.values[0], replace(PLAN.values[1], dtype=dtype, shape=shape, nbytes=nbytes))
    assert list(violations(replace(PLAN, values=values, buffers=(replace(WIDE, nbytes=nbytes),)))) == []
    assert list(violations(replace(PLAN, values=values, buffers=(replace(WIDE, nbytes=nbytes - 1),))))
