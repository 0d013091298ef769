"""Plans built by hand: a wide-and-deep model whose tables stay on the host, and changes of it."""

from __future__ import annotations

from hetpart.plan.figures import AliveValue, Baseline, Certificate, DeviceUse, Prediction
from hetpart.plan.model import (
    Buffer,
    Decision,
    MachineReference,
    ModelReference,
    Partition,
    Plan,
    Residency,
    ResidencyState,
    Transfer,
    ValueForm,
    ValueSpec,
    WeightFile,
)
from hetpart.plan.timeline import LaneUse, Task, TaskKind, Timeline

TABLE_BYTES = 39 * 100_000 * 80 * 4
DENSE_BYTES = 15_470_084


def wide_and_deep_plan() -> Plan:
    return Plan(
        model=ModelReference(
            name="wide_and_deep",
            path="models/wide_and_deep.onnx",
            folder="../models",
            files=(WeightFile("wide_and_deep.onnx.data", TABLE_BYTES + DENSE_BYTES, "ab" * 32),),
            opset=20,
            ops=6,
            weight_bytes=TABLE_BYTES + DENSE_BYTES,
            dimensions={"batch": 64},
        ),
        machine=MachineReference(
            name="l4+generic-2core",
            origin="no GPU answers here, so l4 with this machine's CPU",
            digest="cd" * 32,
        ),
        options={"budget": "300MB", "shape": "batch=64", "placement": "optimal"},
        devices=(_host(), _accelerator()),
        inputs=(ValueSpec("ids", "int64", (64, 39), 64 * 39 * 8, ValueForm.STATIC, 100_000),),
        outputs=(ValueSpec("score", "float32", (64, 1), 256, ValueForm.STATIC),),
        values=(
            ValueSpec("embedded", "float32", (64, 3120), 798_720, ValueForm.STATIC),
            ValueSpec("wide", "float32", (64, 1), 256, ValueForm.STATIC),
        ),
        partitions=_partitions(),
        transfers=(
            Transfer("embedded", "cpu", "cuda:0", 798_720, 77.4e-6, step=1),
            Transfer("wide", "cpu", "cuda:0", 256, 10.0e-6, step=1),
            Transfer("score", "cuda:0", "cpu", 256, 10.0e-6, step=2),
        ),
        buffers=(
            Buffer("embedded", "cuda:0", 0, 798_720, 1, 1),
            Buffer("wide", "cuda:0", 798_720, 256, 1, 1),
            Buffer("score", "cuda:0", 798_976, 256, 1, 2),
        ),
        residencies=(
            Residency("tables", "cpu", ResidencyState.HOST, TABLE_BYTES),
            Residency("fc1.weight", "cuda:0", ResidencyState.RESIDENT, DENSE_BYTES),
        ),
        decisions=_decisions(),
        prediction=Prediction(0.000_602_4, 0.000_455, 0.000_097_4, 0.000_05),
        certificate=Certificate(cost=0.000_552_4, lower_bound=0.000_541_2, gap=0.020_275, price=3.1e-12),
        baselines=(
            Baseline("fill-in-order", 0.000_913, 280_000_000, fits=True),
            Baseline("all-cpu", 0.004_21, 0, fits=True),
            Baseline("all-accelerator", None, 1_263_470_084, fits=False),
        ),
        footprint_bytes=1_263_470_084,
        timeline=_timeline(),
        notes=("the op 'custom' has no formula: priced as one that moves its inputs and outputs",),
    )


def _timeline() -> Timeline:
    """Serial, but for the copies: both start once the host is done, and share a lane."""
    tasks = (
        Task(TaskKind.PARTITION, 0, "cpu", 0.0, 0.000_31, ()),
        Task(TaskKind.COPY, 0, "cpu->cuda:0", 0.000_31, 0.000_387_4, (0,)),
        Task(TaskKind.COPY, 1, "cpu->cuda:0", 0.000_387_4, 0.000_397_4, (0,)),
        Task(TaskKind.PARTITION, 1, "cuda:0", 0.000_397_4, 0.000_592_4, (1, 2)),
        Task(TaskKind.COPY, 2, "cuda:0->cpu", 0.000_592_4, 0.000_602_4, (3,)),
    )
    lanes = (
        LaneUse("cpu", 0.000_31, 1),
        LaneUse("cuda:0", 0.000_195, 1),
        LaneUse("cpu->cuda:0", 0.000_087_4, 2),
        LaneUse("cuda:0->cpu", 0.000_01, 1),
    )
    return Timeline(0.000_602_4, 0.000_602_4, 0.000_602_4, 0.000_54, 0.000_592_4, lanes, tasks)


def _host() -> DeviceUse:
    return DeviceUse(
        device="cpu", model="generic-2core", provider="CPUExecutionProvider", memory_bytes=16_000_000_000,
        budget_bytes=None, peak_bytes=TABLE_BYTES + 1_597_440, weight_bytes=TABLE_BYTES, buffer_bytes=798_720,
        activation_bytes=798_720, session_bytes=0, peak_partition=0, alive_at_peak=(AliveValue("embedded", 798_720),),
        seconds=0.000_31, ops=3,
    )  # fmt: skip


def _accelerator() -> DeviceUse:
    return DeviceUse(
        device="cuda:0", model="l4", provider="CUDAExecutionProvider", memory_bytes=24_000_000_000,
        budget_bytes=300_000_000, peak_bytes=DENSE_BYTES + 1_060_864 + 67_108_864, weight_bytes=DENSE_BYTES,
        activation_bytes=261_632, buffer_bytes=799_232, session_bytes=67_108_864, peak_partition=1,
        alive_at_peak=(AliveValue("embedded", 798_720), AliveValue("hidden", 262_144)), seconds=0.000_145, ops=3,
    )  # fmt: skip


def _partitions() -> tuple[Partition, ...]:
    return (
        Partition(
            id=0, device="cpu", ops=("gather", "flatten", "wide_sum"), inputs=("ids",), host_inputs=(),
            outputs=("embedded", "wide"), host_outputs=(), weights=("tables",), seconds=0.000_31,
            weight_bytes=TABLE_BYTES, peak_bytes=798_720,
        ),
        Partition(
            id=1, device="cuda:0", ops=("fc1", "relu", "add"), inputs=("embedded", "wide"), host_inputs=(),
            outputs=("score",), host_outputs=(), weights=("fc1.weight",), seconds=0.000_145, weight_bytes=DENSE_BYTES,
            peak_bytes=261_632,
        ),
    )  # fmt: skip


def _decisions() -> tuple[Decision, ...]:
    rows = (
        (
            "gather",
            "Gather",
            "cpu",
            0,
            "its table of 1.25 GB does not fit the budget",
            0.000_28,
            0.000_011,
            0.0,
            1_600_000,
        ),
        ("flatten", "Flatten", "cpu", 0, "stays with gather: no copy", 0.000_01, 0.000_006, 0.0, 1_597_440),
        ("wide_sum", "ReduceSum", "cpu", 0, "stays with gather: no copy", 0.000_02, 0.000_006, 2e5, 798_976),
        ("fc1", "Gemm", "cuda:0", 1, "3.1 ms faster here", 0.003_2, 0.000_131, 4.1e8, DENSE_BYTES),
        ("relu", "Relu", "cuda:0", 1, "fused with fc1", 0.000_02, 0.000_007, 65_536.0, 524_288),
        ("add", "Add", "cuda:0", 1, "its input is here", 0.000_001, 0.000_007, 64.0, 768),
    )
    return tuple(
        Decision(
            op=op, op_type=kind, scope="", device=device, partition=partition, reason=reason,
            seconds={"cpu": host, "cuda:0": fast}, flops=flops, bytes_moved=moved,
            weight_bytes=DENSE_BYTES if op == "fc1" else 0,
        )
        for op, kind, device, partition, reason, host, fast, flops, moved in rows
    )  # fmt: skip
