"""HPD: ops that end up on another device than one would think, and what that costs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR, HOST
from hetpart.errors import UnmatchedPatternError
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.graph.ir import Op, Value
    from hetpart.linter.subject import Subject
    from hetpart.plan.model import Partition, Plan, Transfer

HEAVY_BODY_BYTES = 64 * 2**20
"""Weights of a loop's or a branch's body that are worth placing on their own."""
MOST_ROUND_TRIPS = 2
NOTICED = 0.1
"""Share of the predicted latency that copies must take to be worth a finding."""


@rule(
    "HPD001", "no-kernel-for-device", Severity.WARNING, Stage.COSTS,
    hint="export the op otherwise, in another dtype or opset; or pin it to the CPU, which says that it is meant",
)  # fmt: skip
def no_kernel_for_device(subject: Subject) -> Iterator[Mark]:
    """An op that can only run on the CPU.

    ## What it does
    Looks every op up in the registry of the accelerator's provider: operator, version, types.

    ## Why is this bad
    Elsewhere it falls back to the CPU silently, and its operands are copied there and back in every run.

    ## Example
    `NonZero` of a float64 tensor on CUDA.

    ## Use instead
    The same in float32.
    """
    costs = subject.costs
    if costs is None or len(costs.machine.devices) <= ACCELERATOR:
        return
    for op in subject.graph.ops:
        missing = costs.ops[op.id].missing
        if missing[ACCELERATOR] and not missing[HOST]:
            yield Mark(f"{op.op_type} {op.name!r} runs on the CPU only: {missing[ACCELERATOR]}", op=op.name)


@rule(
    "HPD002", "cpu-island", Severity.WARNING, Stage.PLAN,
    hint="`hetpart explain` says why it is there; another dtype or operator may have a kernel",
)  # fmt: skip
def cpu_island(subject: Subject) -> Iterator[Mark]:
    """A few ops on the CPU in the middle of the accelerator's work.

    ## What it does
    Finds partitions of the host between partitions of the accelerator, whose copies take longer than their ops.

    ## Why is this bad
    The accelerator waits for a copy, a little arithmetic, and a copy back.

    ## Example
    An op without a CUDA kernel inside a transformer block.

    ## Use instead
    An equivalent that has one.
    """
    plan = subject.planned
    for partition in _between(plan):
        seconds = sum(copy.seconds for copy in _around(plan, partition))
        if seconds > max(partition.seconds, NOTICED * plan.prediction.seconds / len(plan.partitions)):
            yield Mark(
                f"{format_count(len(partition.ops), 'op')} from {partition.ops[0]!r} on the CPU amid the accelerator's "
                f"take {format_seconds(partition.seconds)}, and copies for them {format_seconds(seconds)}",
                op=partition.ops[0],
            )


@rule(
    "HPD003", "ping-pong-copy", Severity.WARNING, Stage.PLAN,
    hint="a larger budget, a pin or --max-partitions takes copies away; `hetpart sweep` shows what memory buys",
)  # fmt: skip
def ping_pong_copy(subject: Subject) -> Iterator[Mark]:
    """Data that goes back and forth between devices.

    ## What it does
    Counts how often the chain of partitions changes sides, where the copies take a tenth of the latency and more.
    Silent where they pay: memory is free, no op is pinned, and no placement is a tenth faster for certain.

    ## Why is this bad
    Each change is a copy that the next partition waits for.

    ## Example
    Every second layer of a decoder on the accelerator.

    ## Use instead
    The first half of the layers there, the second half on the host.
    """
    plan = subject.planned
    sides = [partition.device for partition in plan.partitions]
    trips = sum(before != after for before, after in pairwise(sides)) // 2
    share = plan.prediction.transfer_seconds / plan.prediction.seconds if plan.prediction.seconds else 0.0
    if trips > MOST_ROUND_TRIPS and share > NOTICED and not _pays(plan):
        yield Mark(
            f"a run goes back and forth between devices {trips} times; its {len(plan.transfers)} copies take "
            f"{format_seconds(plan.prediction.transfer_seconds)} of {format_seconds(plan.prediction.seconds)}"
        )


def _pays(plan: Plan) -> bool:
    """Whether the copies are worth what they take: more memory or fewer constraints would not spare them."""
    found = plan.certificate
    return not found.price and not plan.options.get("pin") and found.gap <= NOTICED


@rule(
    "HPD004", "unsplittable-control-flow", Severity.WARNING, Stage.GRAPH,
    hint="unroll the loop, or export the branches as models of their own",
)  # fmt: skip
def unsplittable_control_flow(subject: Subject) -> Iterator[Mark]:
    """A loop or branch with large weights inside, which moves as one piece.

    ## What it does
    Finds `If`, `Loop` and `Scan` whose bodies use 64 MiB of weights and more.

    ## Why is this bad
    The op and all of its weights are on one device: no budget below them leaves anything of it there.

    ## Example
    A decoder of 1 GB inside a `Loop` over tokens.

    ## Use instead
    The decoder as a model, and the loop in the program that runs it.
    """
    graph = subject.graph
    for op in subject.graph.ops:
        if op.bodies:
            captured = sum(graph.values[value].nbytes for value in op.uses if graph.values[value].is_constant)
            nbytes = captured + sum(value.nbytes for body in op.bodies for value in body.weights)
            if nbytes >= HEAVY_BODY_BYTES:
                yield Mark(f"{op.op_type} {op.name!r} has {format_bytes(nbytes)} of weights inside", op=op.name)


@rule(
    "HPD005", "host-read-in-accelerator-region", Severity.NOTE, Stage.PLAN,
    hint="make the value a constant, or have it computed on the host from the inputs",
)  # fmt: skip
def host_read_in_accelerator_region(subject: Subject) -> Iterator[Mark]:
    """An op on the accelerator that reads a value made there from host memory.

    ## What it does
    Finds operands that CUDA kernels keep in host memory, such as a shape or a trip count, and that an op on the
    accelerator makes.

    ## Why is this bad
    ONNX Runtime copies it to the host in the middle of the work and waits for it.

    ## Example
    `Reshape` to a shape that a `Concat` on CUDA computes.

    ## Use instead
    A shape that only depends on the inputs' shapes, which hetpart computes when it plans.
    """
    plan, graph = subject.planned, subject.graph
    host = plan.devices[HOST].device
    there = {decision.op for decision in plan.decisions if decision.device != host}
    for op in graph.ops:
        for value in _read_on_host(subject, op) if op.name in there else ():
            maker = value.producer
            if maker is not None and graph.ops[maker].name in there and not _left_on_host(subject, maker, value.id):
                yield Mark(f"{op.op_type} {op.name!r} reads {value.name!r} on the host, made on the GPU", op=op.name)


@rule(
    "HPD006", "pin-matches-nothing", Severity.ERROR, Stage.FILE, tries=Stage.COSTS,
    hint="names are those of `hetpart annotate --csv`",
)  # fmt: skip
def pin_matches_nothing(subject: Subject) -> Iterator[Mark]:
    """A pin whose pattern matches no op of the model.

    ## What it does
    Compares every --pin with names, modules and types of the model's ops.

    ## Why is this bad
    The op that was meant has another name by now, and is placed by cost.

    ## Example
    `--pin 'encoder.layers.*=cpu'` of a model that calls them `encoder.layer`.

    ## Use instead
    `--pin 'encoder.layer.*=cpu'`
    """
    if isinstance(subject.problem, UnmatchedPatternError):
        yield Mark(subject.problem.message, hint=subject.problem.hint)


def _between(plan: Plan) -> list[Partition]:
    """Partitions of the host with others before and behind them."""
    host, found = plan.devices[HOST].device, plan.partitions
    return [
        partition
        for place, partition in enumerate(found)
        if partition.device == host
        and any(before.device != host for before in found[:place])
        and any(after.device != host for after in found[place + 1 :])
    ]


def _around(plan: Plan, partition: Partition) -> list[Transfer]:
    """Copies of what ``partition`` reads and makes."""
    inputs, outputs = set(partition.inputs), set(partition.outputs)
    return [
        copy
        for copy in plan.transfers
        if (copy.target == partition.device and copy.value in inputs)
        or (copy.source == partition.device and copy.value in outputs)
    ]


def _read_on_host(subject: Subject, op: Op) -> list[Value]:
    """Operands that the accelerator's kernel of ``op`` reads from host memory."""
    assert subject.costs is not None
    positions = subject.costs.ops[op.id].host_inputs
    read = (value for position, value in enumerate(op.inputs) if position in positions)
    return [subject.graph.values[value] for value in read if value is not None]


def _left_on_host(subject: Subject, maker: int, value: int) -> bool:
    """Whether the kernel that makes ``value`` leaves it in host memory."""
    assert subject.costs is not None
    left = subject.costs.ops[maker].host_outputs
    return any(made == value for position, made in enumerate(subject.graph.ops[maker].outputs) if position in left)
