"""Pages to look at: of plans built by hand, large ones and hostile ones among them."""

from __future__ import annotations

from dataclasses import replace

from hetpart.plan.curves import Curve, CurvePoint
from hetpart.plan.findings import Finding, Severity, SourceLine
from hetpart.plan.model import Decision, Plan, Transfer
from hetpart.plan.timeline import TaskKind
from hetpart.plan.traces import MeasuredRun, MeasuredTask
from hetpart.report.page import Evidence
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "'\"><svg onload=document.title='owned'>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "a\x00b\x1b[2J\r\n\u2028c",
    "\u202eevil\u2066 \u05d0\u05d1\u05d2",
    "\udc80",
    "javascript:document.title='owned'",
    "=HYPERLINK(1)",
    "x" * 5000,
    "",
)
"""Names that a model file may hold."""

FINDINGS = (
    Finding("HPM001", "budget-exceeded", Severity.ERROR, "m.onnx", "cuda:0 is 3 GB short", "raise the budget", ""),
    Finding("HPD003", "ping-pong-copy", Severity.WARNING, "m.onnx", "'embedded' goes to and fro", "pin it", "embedded",
            op="fc1", source=SourceLine("model.py", 7)),
)  # fmt: skip
RUN = MeasuredRun(
    (
        MeasuredTask("partition 0", TaskKind.PARTITION, "cpu", 0.0, 0.000_35),
        MeasuredTask("copy embedded", TaskKind.COPY, "cpu->cuda:0", 0.000_36, 0.000_09),
        MeasuredTask("partition 1", TaskKind.PARTITION, "cuda:0", 0.000_46, 0.000_2),
    )
)
CURVE = Curve(
    "l4", "l4+generic-2core", "asked for", "cuda:0", 24_000_000_000, 1_263_470_084,
    (
        CurvePoint(0, 0.004_2, 0.004_1, 0.004_0, 0.02, 1e-11, 0, 1, 0, 0),
        CurvePoint(300_000_000, 0.000_6, 0.000_55, 0.000_54, 0.02, 3.1e-12, 83_640_000, 2, 3, 799_000, knee=True),
        CurvePoint(1_300_000_000, 0.000_45, 0.000_4, 0.000_4, 0.0, 0.0, 1_264_000_000, 1, 6, 0),
    ),
)  # fmt: skip
FULL = Evidence(PLAN, findings=FINDINGS, run=RUN, curve=CURVE)


def named(plan: Plan, name: str) -> Plan:
    """``plan`` with every name that a model file can set changed to ``name``."""
    return replace(
        plan,
        model=replace(plan.model, name=name, path=name, dimensions={name: 1}),
        machine=replace(plan.machine, name=name, origin=name),
        devices=tuple(
            replace(use, model=name, alive_at_peak=tuple(replace(value, name=name) for value in use.alive_at_peak))
            for use in plan.devices
        ),
        inputs=tuple(replace(spec, name=f"in {name}") for spec in plan.inputs),
        values=tuple(replace(spec, name=f"{spec.name} {name}") for spec in plan.values),
        partitions=tuple(replace(p, ops=tuple(f"{op} {name}" for op in p.ops)) for p in plan.partitions),
        decisions=tuple(
            replace(decision, op=f"{decision.op} {name}", op_type=name, scope=name, reason=name)
            for decision in plan.decisions
        ),
        baselines=tuple(replace(baseline, name=name) for baseline in plan.baselines),
        certificate=replace(plan.certificate, speaks_of=name),
        notes=(name,),
    )  # fmt: skip


def hostile(name: str) -> Evidence:
    """Everything that can be named is named ``name``."""
    findings = tuple(replace(found, message=name, hint=name, path=name) for found in FINDINGS)
    return Evidence(named(PLAN, name), findings=findings)


def large(ops: int, pieces: int) -> Evidence:
    """A plan of many ops in many partitions, with names as exporters write them."""
    each = ops // pieces
    names = [f"/model/decoder/layers.{i // 29}/self_attn/projection_{i % 29}/MatMul_{i}" for i in range(ops)]
    first, second = PLAN.partitions
    partitions = tuple(
        replace(
            first if part % 2 == 0 else second, id=part, ops=tuple(names[part * each : (part + 1) * each]),
            inputs=(f"v{part - 1}",) if part else ("ids",), outputs=(f"v{part}",),
        )
        for part in range(pieces)
    )  # fmt: skip
    copies = tuple(_copy(part, partitions[part].device) for part in range(1, pieces))
    return Evidence(
        replace(
            PLAN,
            model=replace(PLAN.model, ops=ops),
            partitions=partitions,
            transfers=copies,
            buffers=(),
            values=tuple(replace(PLAN.values[0], name=f"v{part}") for part in range(pieces)),
            outputs=(replace(PLAN.outputs[0], name=f"v{pieces - 1}"),),
            decisions=tuple(_decision(i, name, i // each) for i, name in enumerate(names)),
            timeline=None,
        ),
        findings=FINDINGS,
    )


def _copy(part: int, device: str) -> Transfer:
    source = "cuda:0" if device == "cpu" else "cpu"
    return Transfer(f"v{part - 1}", source, device, 798_720, 77.4e-6, step=part)


def _decision(number: int, name: str, part: int) -> Decision:
    """No two alike: figures and reasons too."""
    of = PLAN.decisions[number % 6]
    intensity = 0.1 + number % 977 / 7
    return replace(
        of, op=name, partition=part, device="cpu" if part % 2 == 0 else "cuda:0",
        scope=f"model.decoder.layers.{number // 29}",
        seconds={"cpu": 1e-6 * (1 + number % 997), "cuda:0": 1e-7 * (1 + number % 991)},
        flops=1e6 * intensity * (1 + number % 89), bytes_moved=1_000_000 * (1 + number % 89),
        reason=f"memory-bound on cuda:0 (intensity {intensity:.3g} < 125), {1 + number % 831 / 10:.1f}× faster "
        "there than on cpu; the memory it needs there, or the copies to it, cost more than it would save",
    )  # fmt: skip
