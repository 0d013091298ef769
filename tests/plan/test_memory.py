"""Memory over a run: by hand on one plan, and on drawn models between what must be there and what the plan counts."""

from __future__ import annotations

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.plan.memory import DeviceMemory, memory_over_time
from hetpart.plan.model import Plan
from hetpart.plan.predicted import PredictedTask, predicted_run
from tests.plans import DENSE_BYTES, TABLE_BYTES, wide_and_deep_plan
from tests.runtime.graphs import models
from tests.runtime.test_streaming import layers, planned

PLAN = wide_and_deep_plan()
IDS, EMBEDDED, WIDE = 64 * 39 * 8, 798_720, 256


def rows(memory: DeviceMemory) -> list[tuple[float, int, int]]:
    """Start in µs, bytes of values and bytes inside, of every stretch."""
    return [(round(step.start * 1e6, 3), step.value_bytes, step.inside_bytes) for step in memory.steps]


def test_every_stretch_of_a_run_by_hand() -> None:
    host, accelerator = memory_over_time(PLAN)
    assert rows(host) == [
        (0.0, IDS + EMBEDDED + WIDE, 798_720),  # the first partition runs
        (310.0, EMBEDDED + WIDE, 0),  # the larger copy
        (387.4, WIDE, 0),  # the smaller one
        (397.4, 0, 0),
        (592.4, 256, 0),  # the result arrives
    ]
    assert rows(accelerator) == [
        (0.0, 0, 0),
        (310.0, EMBEDDED, 0),
        (387.4, EMBEDDED + WIDE, 0),
        (397.4, EMBEDDED + WIDE + 256, 261_632),
        (592.4, 256, 0),
    ]
    assert accelerator.held_bytes == DENSE_BYTES + 67_108_864
    assert accelerator.most_bytes == accelerator.use.peak_bytes
    assert host.held_bytes == TABLE_BYTES


def test_stretches_follow_each_other_to_the_end() -> None:
    for memory in memory_over_time(PLAN):
        assert memory.steps[0].start == 0
        assert memory.steps[-1].end == predicted_run(PLAN).seconds
        for step, after in zip(memory.steps, memory.steps[1:], strict=False):
            assert step.start < step.end == after.start


def needed(plan: Plan, task: PredictedTask, device: str) -> int:
    """Bytes that a partition cannot do without on its device, states left out."""
    nbytes = {spec.name: spec.nbytes for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    states = {*plan.states, *plan.states.values()}
    places = {place for place in (*task.reads, *task.makes) if place[1] == device and place[0] not in states}
    return plan.partitions[task.index].peak_bytes + sum(nbytes[name] for name, _ in places)


def assert_told(plan: Plan, *, overlapped: bool) -> None:
    run = predicted_run(plan, overlapped=overlapped)
    by_device = {memory.use.device: memory for memory in memory_over_time(plan, run)}
    for device, memory in by_device.items():
        # Beside an arena, where nothing limits it, more may be in use overlapped than one after another.
        if not overlapped or memory.use.budget_bytes is not None:
            assert memory.most_bytes <= memory.use.peak_bytes, device
        assert all(step.value_bytes >= 0 and step.inside_bytes >= 0 for step in memory.steps)
    for task in run.tasks:
        if not task.is_copy and task.seconds > 0:
            middle = (task.start + task.end) / 2
            steps = by_device[task.lane].steps
            (during,) = (step for step in steps if step.start <= middle < step.end)
            assert during.nbytes >= needed(plan, task, task.lane)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    proto=models(),
    source=st.sampled_from(["random:1", "random:2", "all-accelerator"]),
    hardware=st.sampled_from(["emulated", "l4+epyc"]),
    overlapped=st.booleans(),
)
def test_of_any_model_it_lies_between_what_runs_need_and_what_is_counted(
    proto: onnx.ModelProto, source: str, hardware: str, overlapped: bool
) -> None:
    assert_told(hetpart.partition(proto, hardware=hardware, placement=source).plan, overlapped=overlapped)


def test_streamed_weights_are_values_where_they_are_copied_to() -> None:
    plan = planned(layers(6), time_limit=1).plan
    streamed = {residency.weight for residency in plan.residencies if residency.state == "streamed"}
    assert streamed
    for overlapped in (False, True):
        assert_told(plan, overlapped=overlapped)
    # Beside what is counted with the weights, the accelerator holds a streamed weight from its copy on.
    run = predicted_run(plan, overlapped=False)
    copy = next(task for task in run.tasks if task.is_copy and task.makes[0][0] in streamed)
    (step,) = (step for step in memory_over_time(plan, run)[1].steps if step.start <= copy.start < step.end)
    assert step.value_bytes >= plan.transfers[copy.index].nbytes
