"""The plan's timeline: equal to the serial prediction one by one, safe at any pace, and within every budget."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.cost_model.memory import aligned
from hetpart.plan.timeline import TaskKind
from hetpart.plan.verify import violations
from tests.partitioner.timeline.pace import Paced
from tests.runtime.graphs import models
from tests.runtime.models import model, placed

SOURCES = ["optimal", "random:1", "random:2", "random:3"]


def assert_told(partitioned: hetpart.PartitionedModel) -> None:
    """Seconds, lanes and bounds of a timeline say what the rest of the plan says."""
    plan, told = partitioned.plan, partitioned.timeline
    assert list(violations(plan)) == []
    assert told.serial_seconds == pytest.approx(plan.prediction.seconds, rel=1e-12, abs=1e-15)
    assert told.seconds <= told.serial_seconds * (1 + 1e-12)
    assert max([told.critical_path, *(use.seconds for use in told.lanes)], default=0.0) <= told.seconds * (1 + 1e-12)
    assert told.critical_path * (1 - 1e-12) <= told.lower_bound <= told.seconds
    assert told.finest_bound <= told.seconds
    for use in told.lanes:
        mine = [task for task in told.tasks if task.lane == use.lane]
        assert use.tasks == len(mine)
        assert use.seconds == pytest.approx(sum(task.seconds for task in mine))
    for task in told.tasks:
        if task.kind is TaskKind.COPY:
            assert task.seconds == pytest.approx(plan.transfers[task.index].seconds, abs=1e-12)
        else:
            assert task.seconds >= plan.partitions[task.index].seconds * (1 - 1e-9) - 1e-12


def assert_safe(partitioned: hetpart.PartitionedModel) -> None:
    sizes = {value.name: aligned(value.nbytes) for value in partitioned.graph.values}
    for seed in range(5):
        Paced.of(partitioned.plan, seed).check(sizes)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    proto=models(),
    source=st.sampled_from(SOURCES),
    hardware=st.sampled_from(["emulated", "l4+epyc"]),
    share=st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    overlap=st.booleans(),
)
def test_any_model_has_a_timeline_that_is_safe_at_any_pace(
    proto: onnx.ModelProto, source: str, hardware: str, share: float, overlap: bool
) -> None:
    footprint = hetpart.partition(proto, hardware=hardware, placement="all-accelerator").plan.footprint_bytes
    host = 10**9 if share < 1 else None
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hetpart.plan.timeline.LEAST_GAIN", 0.0)
            partitioned = hetpart.partition(
                proto, hardware=hardware, placement=source, budget=int(footprint * share), host_budget=host,
                overlap=overlap,
            )  # fmt: skip
    except hetpart.InfeasibleError:
        return
    assert_told(partitioned)
    assert_safe(partitioned)


BRANCHES = model("""g (float[300,300] x) => (float[300,300] z) {
    [a] a = Gemm(x, x) [b] b = MatMul(x, x) [c] c = MatMul(b, b) [d] d = Neg(a) [e] z = Add(c, d)
}""")


def test_a_branch_on_each_device_runs_at_once() -> None:
    """The fewest partitions have all of the host's after the accelerator's: it takes one more."""
    pins = [f"node:{name}={'cuda' if name in 'bc' else 'cpu'}" for name in "abcde"]
    serial = placed(BRANCHES, ("b", "c"))
    partitioned = hetpart.partition(BRANCHES, hardware="emulated", pin=pins, overlap=True)
    told = partitioned.timeline
    assert serial.timeline.seconds == pytest.approx(serial.timeline.serial_seconds)
    assert len(partitioned.plan.partitions) == len(serial.plan.partitions) + 1
    assert told.seconds < 0.7 * told.serial_seconds
    on_host, there = ([t for t in told.tasks if t.lane == lane] for lane in ("cpu", "cuda:0"))
    assert on_host[0].start < there[0].end
    assert there[0].start < on_host[0].end


def test_a_chain_has_nothing_to_overlap() -> None:
    proto = model("""g (float[64,64] x) => (float[64,64] z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) }""")
    told = placed(proto, ("b",)).timeline
    assert told.seconds == pytest.approx(told.serial_seconds)
    assert told.lower_bound == told.seconds
    assert [task.kind for task in told.tasks] == [
        TaskKind.PARTITION, TaskKind.COPY, TaskKind.PARTITION, TaskKind.COPY, TaskKind.PARTITION,
    ]  # fmt: skip


def test_a_model_of_no_op_has_an_empty_timeline() -> None:
    told = hetpart.partition(model("g (float[4] x) => (float[4] x) { }"), hardware="emulated").timeline
    assert told.tasks == told.lanes == ()
    assert told.seconds == told.lower_bound == 0.0
    assert told.busiest_lane is None
