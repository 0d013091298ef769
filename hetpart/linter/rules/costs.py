"""HPC: whether figures can be trusted, and whether cuts pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.cost_model.calibrated import outdated, runtime_version
from hetpart.devices import HOST
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.units import format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.linter.subject import Subject

SMALL_SHARE = 0.01
"""Of the latency: a partition that takes less was hardly worth its session."""
FEW = 3
"""Partitions of which none is too many: host, accelerator, host."""
_OWN = "PyTorch runs it, at a cost that is a guess on the safe side: pin it where you know better"
"""What to do about an operator that ONNX has not, as one of the user's own."""


@rule(
    "HPC001", "no-cost-formula", Severity.WARNING, Stage.COSTS,
    hint="report the operator to hetpart; until then its cost is a guess on the safe side",
)  # fmt: skip
def no_cost_formula(subject: Subject) -> Iterator[Mark]:
    """An op of which nobody knows what it costs.

    ## What it does
    Finds ops that no formula of the cost model speaks of.

    ## Why is this bad
    Their seconds, and with them the placement, rest on a guess.

    ## Example
    `com.example::Decode`

    ## Use instead
    An ONNX function of that name with a body of standard operators, which is priced by its body.
    """
    if subject.costs is not None:
        for op in subject.graph.ops:
            if not subject.costs.ops[op.id].known:
                kind = f"{op.domain}::{op.op_type}" if op.domain else op.op_type
                hint = _OWN if op.domain == CALL_DOMAIN else ""
                yield Mark(f"the cost of {kind} {op.name!r} is a guess", op=op.name, hint=hint)


@rule(
    "HPC004", "stale-calibration", Severity.WARNING, Stage.FILE,
    hint="run `hetpart calibrate` again",
)  # fmt: skip
def stale_calibration(subject: Subject) -> Iterator[Mark]:
    """This machine was calibrated with another version of ONNX Runtime.

    ## What it does
    Looks for calibrations of this machine, where the model is priced for its processor and none is of the ONNX Runtime
    that is installed.

    ## Why is this bad
    Kernels change from version to version: figures of the old ones are not used, and those of the processor's class
    are off by 20 % and more.

    ## Example
    `pip install -U onnxruntime` after `hetpart calibrate`.

    ## Use instead
    `hetpart calibrate` after every upgrade.
    """
    if subject.own_processor:
        for path in outdated():
            yield Mark(f"no calibration for ONNX Runtime {runtime_version()} is here, but {path.name}")


@rule(
    "HPC002", "copy-bound-partition", Severity.WARNING, Stage.PLAN,
    hint="`hetpart explain` says what keeps its ops there; a pin or a larger budget joins it with its neighbours",
)  # fmt: skip
def copy_bound_partition(subject: Subject) -> Iterator[Mark]:
    """A partition of an accelerator that waits longer for its inputs than it computes.

    ## What it does
    Compares every accelerator partition's seconds with those of the copies to it.

    ## Why is this bad
    The accelerator is idle for most of the time.

    ## Example
    A single `MatMul` there, of activations that the host makes.

    ## Use instead
    The ops that make them on the accelerator, too.
    """
    plan = subject.planned
    host = plan.devices[HOST].device
    for partition in plan.partitions:
        if partition.device == host:
            continue
        inputs = set(partition.inputs)
        seconds = sum(
            copy.seconds for copy in plan.transfers if copy.target == partition.device and copy.value in inputs
        )
        if seconds > partition.seconds and seconds > SMALL_SHARE * plan.prediction.seconds:
            yield Mark(
                f"partition {partition.id} on {partition.device} from {partition.ops[0]!r} computes for "
                f"{format_seconds(partition.seconds)} and waits {format_seconds(seconds)} for copies",
                op=partition.ops[0],
            )


@rule(
    "HPC003", "tiny-partition", Severity.NOTE, Stage.PLAN,
    hint="--max-partitions or --min-gain keeps cuts that gain little out",
)  # fmt: skip
def tiny_partition(subject: Subject) -> Iterator[Mark]:
    """A partition that computes next to nothing.

    ## What it does
    Finds partitions of less than a hundredth of the latency, where there are more than three.

    ## Why is this bad
    Each is a session to load, to keep in memory and to start in every run.

    ## Example
    A partition of one `Reshape`.

    ## Use instead
    `--min-gain 1%`
    """
    plan = subject.planned
    for partition in plan.partitions if len(plan.partitions) > FEW else ():
        if partition.seconds < SMALL_SHARE * plan.prediction.seconds:
            yield Mark(
                f"partition {partition.id} on {partition.device}, {format_count(len(partition.ops), 'op')} from "
                f"{partition.ops[0]!r}, computes for {format_seconds(partition.seconds)}",
                op=partition.ops[0],
            )
