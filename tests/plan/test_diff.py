"""Two plans side by side: each figure that changed, and nothing where nothing did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.plan.diff import diff_plans
from hetpart.plan.differences import Change, HeldWeight
from hetpart.plan.model import Plan, Residency, ResidencyState
from tests.plans import DENSE_BYTES, TABLE_BYTES, wide_and_deep_plan

PLAN = wide_and_deep_plan()


def slower(plan: Plan, factor: float) -> Plan:
    assert plan.timeline is not None
    tasks = tuple(replace(task, start=factor * task.start, end=factor * task.end) for task in plan.timeline.tasks)
    return replace(plan, timeline=replace(plan.timeline, tasks=tasks))


def with_weights(*rows: tuple[str, int]) -> Plan:
    held = tuple(Residency(name, "cuda:0", ResidencyState.RESIDENT, nbytes) for name, nbytes in rows)
    return replace(PLAN, residencies=held)


def test_a_plan_does_not_differ_from_itself() -> None:
    diff = diff_plans(PLAN, PLAN, 0.0)
    figures = (diff.seconds, diff.serial_seconds, diff.lower_bound, diff.partitions, diff.copies, diff.copied_bytes)
    for change in (*figures, *(device.peak_bytes for device in diff.devices)):
        assert change.before == change.after
        assert change.share == 0
    lists = (diff.moved, diff.ops_appeared, diff.ops_vanished, diff.weights_appeared, diff.weights_vanished)
    assert [*lists, diff.weights_changed, diff.notes, diff.regressions] == [()] * 8


@pytest.mark.parametrize(
    ("before", "after", "share", "limit", "beyond"),
    [
        (100, 105, 0.05, 0.05, False),
        (100, 106, 0.06, 0.05, True),
        (100, 50, -0.5, 0.0, False),
        (0, 0, 0.0, 0.0, False),
        (0, 1, None, 9.0, True),
        (7, 7, 0.0, 0.0, False),
    ],
)
def test_what_grew_by_more_than_allowed(
    before: int, after: int, share: float | None, limit: float, beyond: bool
) -> None:
    change = Change.of(before, after)
    assert change.share == (None if share is None else pytest.approx(share))
    assert change.grew_beyond(limit) is beyond


def test_latency_peaks_and_copied_bytes_are_gated_and_nothing_else() -> None:
    host, accelerator = PLAN.devices
    larger = replace(accelerator, peak_bytes=2 * accelerator.peak_bytes)
    copies = (replace(PLAN.transfers[0], nbytes=10**7), *PLAN.transfers[1:])
    worse = replace(slower(PLAN, 1.2), devices=(host, larger), transfers=copies)
    assert [one.what for one in diff_plans(PLAN, worse, 0.05).regressions] == [
        "latency", "peak of cuda:0", "copied bytes",
    ]  # fmt: skip
    assert [one.what for one in diff_plans(PLAN, worse, 0.5).regressions] == ["peak of cuda:0", "copied bytes"]
    assert diff_plans(PLAN, worse).regressions == ()
    assert diff_plans(worse, PLAN, 0.0).regressions == ()


def test_an_op_that_moved_is_told_with_both_devices_and_times() -> None:
    first, *rest = PLAN.decisions
    moved = replace(PLAN, decisions=(replace(first, device="cuda:0", reason="it fits now"), *rest))
    (found,) = diff_plans(PLAN, moved).moved
    assert (found.op, found.op_type, found.device_before, found.device_after) == ("gather", "Gather", "cpu", "cuda:0")
    assert (found.seconds.before, found.seconds.after) == (0.000_28, 0.000_011)
    assert found.reason == "it fits now"


def test_ops_come_and_go() -> None:
    without = replace(PLAN, decisions=PLAN.decisions[1:])
    (vanished,) = diff_plans(PLAN, without).ops_vanished
    assert (vanished.op, vanished.device, vanished.seconds) == ("gather", "cpu", 0.000_28)
    assert [op.op for op in diff_plans(without, PLAN).ops_appeared] == ["gather"]


def test_copies_are_told_by_their_direction() -> None:
    up, down = diff_plans(PLAN, replace(PLAN, transfers=PLAN.transfers[:2])).directions
    assert (up.direction, up.copies, up.nbytes.after) == ("cpu->cuda:0", Change(2, 2, 0.0), 798_976)
    assert (down.direction, down.copies.after, down.nbytes.before) == ("cuda:0->cpu", 0, 256)


def test_weights_appear_vanish_grow_and_move() -> None:
    tables = Residency("tables", "cuda:0", ResidencyState.RESIDENT, TABLE_BYTES)
    dense = Residency("fc1.weight", "cuda:0", ResidencyState.RESIDENT, 2 * DENSE_BYTES)
    bias = Residency("fc1.bias", "cpu", ResidencyState.HOST, 4)
    diff = diff_plans(PLAN, replace(PLAN, residencies=(tables, dense, bias)))
    assert diff.weights_appeared == (HeldWeight("fc1.bias", 4, ("cpu host",)),)
    assert diff.weights_vanished == ()
    moved, grown = diff.weights_changed
    assert (moved.before.held, moved.after.held) == (("cpu host",), ("cuda:0 resident",))
    assert (grown.before.nbytes, grown.after.nbytes) == (DENSE_BYTES, 2 * DENSE_BYTES)
    assert [weight.weight for weight in diff_plans(replace(PLAN, residencies=(tables,)), PLAN).weights_appeared] == [
        "fc1.weight"
    ]


def test_numbers_that_an_exporter_gave_to_weights_do_not_matter() -> None:
    before = with_weights(("onnx::MatMul_17", 400), ("onnx::MatMul_18", 400), ("val_3", 8), ("layers.2.weight", 64))
    after = with_weights(("onnx::MatMul_20", 400), ("onnx::MatMul_21", 400), ("val_3", 8), ("layers.3.weight", 64))
    diff = diff_plans(before, after)
    assert [weight.weight for weight in diff.weights_appeared] == ["layers.3.weight"]
    assert [weight.weight for weight in diff.weights_vanished] == ["layers.2.weight"]
    more = diff_plans(before, with_weights(("onnx::MatMul_20", 400), ("onnx::MatMul_21", 404)))
    assert [weight.weight for weight in more.weights_appeared] == ["onnx::MatMul_21"]
    assert {weight.weight for weight in more.weights_vanished} == {"onnx::MatMul_18", "val_3", "layers.2.weight"}


def test_a_device_that_one_plan_lacks_holds_nothing_there() -> None:
    alone = replace(PLAN, devices=PLAN.devices[:1])
    host, accelerator = diff_plans(alone, PLAN).devices
    assert (host.device, accelerator.device) == ("cpu", "cuda:0")
    assert (accelerator.peak_bytes.before, accelerator.peak_bytes.share) == (0, None)


def test_notes_say_why_figures_may_not_be_comparable() -> None:
    host, accelerator = PLAN.devices
    other = replace(
        PLAN,
        machine=replace(PLAN.machine, name="h100", digest="00"),
        devices=(host, replace(accelerator, budget_bytes=10**9)),
        model=replace(PLAN.model, dimensions={"batch": 8}),
        options={**PLAN.options, "placement": "all-cpu", "min_gain": "5%"},
    )
    assert diff_plans(PLAN, other).notes == (
        "the plans are priced for different machines: l4+generic-2core and h100",
        "the budget of cuda:0 was 300 MB and is 1.00 GB",
        "the dimensions were batch=64 and are batch=8",
        "--min-gain was not given and is 5%",
        "--placement was optimal and is all-cpu",
    )
    recalibrated = replace(PLAN, machine=replace(PLAN.machine, digest="00"))
    assert diff_plans(PLAN, recalibrated).notes == (
        "the plans are priced for different machines: other figures of l4+generic-2core",
    )
