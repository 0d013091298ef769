"""The plan's records say one thing, and it is what the graph, the machine and the placement say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.cost_model.transfer import copy_seconds
from hetpart.plan.model import Plan, ResidencyState
from hetpart.plan.verify import violations
from tests.runtime.graphs import models
from tests.runtime.models import model, placed

SHARED = model("""g (float[64,64] x) => (float[64,64] z, float[64,64] y)
<float[64,64] w, float[64,64] v> {
    [one] a = MatMul(x, w) [two] y = Exp(a) [three] b = MatMul(y, w) [four] z = MatMul(b, v)
}""".replace("<float[64,64] w, float[64,64] v> ", ""))  # fmt: skip
SHARED.graph.initializer.extend(
    onnx.numpy_helper.from_array(np.full((64, 64), 0.5, np.float32), name) for name in ("w", "v")
)
WEIGHT = 64 * 64 * 4


def assert_consistent(partitioned: hetpart.PartitionedModel) -> None:
    """Sums, by addition."""
    plan, machine = partitioned.plan, partitioned.costs.machine
    assert list(violations(plan)) == []
    by_op = {decision.op: decision.seconds[decision.device] for decision in plan.decisions}
    prediction = plan.prediction
    assert prediction.compute_seconds == pytest.approx(sum(by_op.values()))
    assert prediction.transfer_seconds == pytest.approx(sum(copy.seconds for copy in plan.transfers), abs=1e-12)
    sessions = sum(machine.devices[machine.index(p.device)].session_seconds for p in plan.partitions)
    assert prediction.session_seconds == pytest.approx(sessions, abs=1e-12)
    assert prediction.seconds == pytest.approx(
        prediction.compute_seconds + prediction.transfer_seconds + prediction.session_seconds
    )
    assert plan.certificate.cost == pytest.approx(prediction.compute_seconds + prediction.transfer_seconds)
    assert plan.certificate.lower_bound <= plan.certificate.cost
    gap = (plan.certificate.cost - plan.certificate.lower_bound) / plan.certificate.cost if plan.certificate.cost else 0
    assert plan.certificate.gap == pytest.approx(gap)
    for partition in plan.partitions:
        assert partition.seconds == pytest.approx(sum(by_op[op] for op in partition.ops))
    for copy in plan.transfers:
        ends = machine.index(copy.source), machine.index(copy.target)
        assert copy.seconds == pytest.approx(copy_seconds(machine, copy.nbytes, *ends))
    assert_devices_add_up(plan)


def assert_devices_add_up(plan: Plan) -> None:
    for use in plan.devices:
        mine = [decision for decision in plan.decisions if decision.device == use.device]
        assert use.ops == len(mine)
        assert use.seconds == pytest.approx(sum(decision.seconds[use.device] for decision in mine))
        assert use.weight_bytes == sum(r.nbytes for r in plan.residencies if r.device == use.device)
        assert use.peak_bytes == use.weight_bytes + use.buffer_bytes + use.activation_bytes + use.session_bytes
        partitions = [p for p in plan.partitions if p.device == use.device]
        assert use.activation_bytes == max((p.peak_bytes for p in partitions), default=0)
        assert use.peak_partition in ({p.id for p in partitions} or {None})
        assert [v.nbytes for v in use.alive_at_peak] == sorted((v.nbytes for v in use.alive_at_peak), reverse=True)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    proto=models(),
    source=st.sampled_from(["optimal", "random:1", "random:2", "all-accelerator", "all-cpu"]),
    hardware=st.sampled_from(["emulated", "l4+epyc", "h100"]),
)
def test_every_figure_is_the_sum_of_its_parts(proto: onnx.ModelProto, source: str, hardware: str) -> None:
    partitioned = hetpart.partition(proto, hardware=hardware, placement=source)
    assert_consistent(partitioned)
    plan = partitioned.plan
    assert [decision.op for decision in plan.decisions] == [op.name for op in partitioned.graph.ops]
    assert Counter(d.op for d in plan.decisions) == Counter(op for p in plan.partitions for op in p.ops)
    assert {spec.name for spec in plan.values} >= {copy.value for copy in plan.transfers}
    assert [spec.name for spec in plan.inputs] == [value.name for value in proto.graph.input]
    assert [spec.name for spec in plan.outputs] == [value.name for value in proto.graph.output]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), share=st.floats(0, 1))
def test_the_best_rule_is_never_better(proto: onnx.ModelProto, share: float) -> None:
    footprint = hetpart.partition(proto, hardware="l4+epyc").plan.footprint_bytes
    plan = hetpart.partition(proto, hardware="l4+epyc", budget=int(footprint * share)).plan
    assert {baseline.name for baseline in plan.baselines} >= {"all-cpu", "all-accelerator", "fill-in-order"}
    for baseline in plan.baselines:
        assert (baseline.seconds is not None) == baseline.fits
        assert baseline.seconds is None or plan.prediction.seconds <= baseline.seconds * (1 + 1e-12)


def test_the_footprint_is_everything_on_the_accelerator() -> None:
    free = hetpart.partition(SHARED, hardware="emulated")
    whole = hetpart.partition(SHARED, hardware="emulated", placement="all-accelerator").plan.device("cuda:0")
    assert free.plan.footprint_bytes == whole.peak_bytes
    # Two weights; the input and the two results at the borders, and inside the largest two of a, b.
    assert whole.weight_bytes == 2 * WEIGHT
    assert whole.buffer_bytes == 3 * WEIGHT
    assert WEIGHT <= whole.activation_bytes <= 2 * WEIGHT


def test_a_weight_is_held_once_on_every_device_that_uses_it() -> None:
    plan = placed(SHARED, ("two", "three")).plan
    held = Counter((r.weight, r.device, r.state) for r in plan.residencies)
    assert held == {
        ("w", "cpu", ResidencyState.HOST): 1,
        ("w", "cuda:0", ResidencyState.RESIDENT): 1,
        ("v", "cpu", ResidencyState.HOST): 1,
    }
    assert [p.weights for p in plan.partitions] == [("w",), ("w",), ("v",)]
    assert plan.device("cpu").weight_bytes == 2 * WEIGHT
    assert plan.device("cuda:0").weight_bytes == WEIGHT
    assert plan.model.weight_bytes == 2 * WEIGHT


def test_copies_down_come_early_and_copies_up_late() -> None:
    proto = model("""g (float[9] x) => (float[9] e, float[9] b) {
        [a] a = Neg(x) [b] b = Neg(x) [c] c = Abs(a) [d] d = Neg(c) [e] e = Add(d, b)
    }""")
    plan = placed(proto, ("b", "c", "e")).plan
    steps = {(copy.value, copy.target): copy.step for copy in plan.transfers}
    where = {op: partition.id for partition in plan.partitions for op in partition.ops}
    assert steps["b", "cpu"] == where["b"] + 1
    assert steps["c", "cpu"] == where["c"] + 1
    assert steps["a", "cuda:0"] == where["c"]
    assert steps["d", "cuda:0"] == where["e"]
    assert steps["e", "cpu"] == len(plan.partitions)
    assert [copy.step for copy in plan.transfers] == sorted(copy.step for copy in plan.transfers)


def reasons(partitioned: hetpart.PartitionedModel) -> dict[str, str]:
    return {decision.op: decision.reason for decision in partitioned.plan.decisions}


COSTLY = model("""g (float[512,512] x, float[512,512] w) => (float[512,512] z) {
    [mm] a = MatMul(x, w) [neg] b = Neg(a) [mm2] z = MatMul(b, w)
}""")


def test_reasons_say_what_decided() -> None:
    fast = reasons(hetpart.partition(COSTLY, hardware="l4+generic-2core"))
    assert "memory-bound on cuda:0" in fast["mm"]
    assert "faster there than on cpu" in fast["mm"]
    pinned = hetpart.partition(COSTLY, hardware="l4+generic-2core", pin="node:mm=cpu")
    assert reasons(pinned)["mm"] == "pinned to cpu"
    assert [d.pinned for d in pinned.plan.decisions] == [True, False, False]
    for rule in ("all-cpu", "random:3"):
        asked = hetpart.partition(COSTLY, hardware="l4+generic-2core", placement=rule)
        slow = [d for d in asked.plan.decisions if d.seconds[d.device] > min(d.seconds.values())]
        assert slow
        assert all(decision.reason.endswith(f"; placed here by {rule}") for decision in slow)
        assert not any("least modelled latency" in note for note in asked.plan.notes)


def test_reasons_tell_memory_from_copies() -> None:
    free = hetpart.partition(SHARED, hardware="l4+generic-2core")
    tight = hetpart.partition(COSTLY, hardware="l4+generic-2core", budget=0)
    assert not any("the memory it needs" in reason for reason in reasons(free).values())
    assert "the memory it needs there" in reasons(tight)["mm"]


def test_reasons_name_what_an_op_is_fused_with() -> None:
    proto = model("""g (float[64,64] x) => (float[64,64] z) {
        [mm] a = MatMul(x, w) [bias] c = Add(a, b) [act] z = Relu(c)
    }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(64, np.float32), "b"))
    partitioned = hetpart.partition(proto, hardware="l4+generic-2core", pin="node:mm=cpu")
    assert len(set(partitioned.costs.groups)) < 3
    for decision in partitioned.plan.decisions[1:]:
        assert decision.device == "cpu"
        if decision.seconds["cpu"] > min(decision.seconds.values()):
            assert "fused with mm, which is pinned here" in decision.reason


def test_bytes_and_intensity_are_those_that_the_reason_speaks_of() -> None:
    """What fusion saves on the op's own device is in neither."""
    proto = model("""g (float[512,512] x, float[512,512] w) => (float[512,512] z) {
        [mm] a = MatMul(x, w) [bias] c = Add(a, b) [mm2] z = MatMul(c, w)
    }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(512, np.float32), "b"))
    partitioned = hetpart.partition(proto, hardware="l4+generic-2core", placement="all-accelerator")
    unfused = [cost.work.bytes_moved for cost in partitioned.costs.ops]
    assert [decision.bytes_moved for decision in partitioned.plan.decisions] != unfused
    bound = [decision for decision in partitioned.plan.decisions if "memory-bound on cuda:0" in decision.reason]
    assert bound
    assert all(f"(intensity {decision.intensity:.3g} " in decision.reason for decision in bound)


def test_a_budget_of_nothing_places_all_on_the_host() -> None:
    partitioned = hetpart.partition(COSTLY, hardware="emulated", budget=0)
    assert_consistent(partitioned)
    assert partitioned.plan.used_devices == ("cpu",)
    assert partitioned.plan.transfers == ()
