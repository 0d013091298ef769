"""The sections of the report on a plan, each from the plan alone. Everything they say is predicted."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import groupby, islice

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.figures import DeviceUse
from hetpart.plan.model import Decision, Partition, Plan, ResidencyState, Transfer
from hetpart.report.layout import bar, heading, line, more, name, table
from hetpart.report.sentences import code_of, elsewhere_seconds, mostly, own_seconds, when
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

LARGEST_OPS = 10
LARGEST_COPIES = 10
MOST_PARTITIONS = 20
_ALIVE_SHOWN = 5
_NONE = "–"
_HELD = {
    ResidencyState.RESIDENT: "resident on {}",
    ResidencyState.STREAMED: "streamed to {} in every run",
    ResidencyState.HOST: "on {}",
}


def latency(plan: Plan) -> Iterator[RenderableType]:
    """Predicted seconds of every device, of the copies and of the sessions, and their sum."""
    prediction = plan.prediction
    rows = [(f"{use.device} ({use.model})", format_count(use.ops, "op"), use.seconds) for use in plan.devices]
    rows.append(("copies", format_count(len(plan.transfers), "copy"), prediction.transfer_seconds))
    rows.append(("sessions", format_count(len(plan.partitions), "partition"), prediction.session_seconds))
    whole = prediction.seconds or 1.0
    yield heading("Latency", "predicted, one after another")
    yield table(
        ("", ">", ">predicted", ">share", ""),
        [
            *(_latency_row(label, what, seconds, seconds / whole) for label, what, seconds in rows),
            (Text("total", "bold"), "", Text(format_seconds(prediction.seconds), "bold"), "", ""),
        ],
    )


def _latency_row(label: str, what: str, seconds: float, share: float) -> tuple[str | Text, ...]:
    if not seconds:
        return name(label), what, _NONE, _NONE, ""
    return name(label), what, format_seconds(seconds), format_percent(share), bar(share)


def memory(plan: Plan) -> Iterator[RenderableType]:
    """Predicted bytes of every device at its peak against its budget, and what is alive then."""
    yield heading("Memory", "predicted peak; buffers lie between partitions, live is inside one")
    yield table(
        ("device", ">budget", ">peak", ">weights", ">buffers", ">live", ">sessions", ">to spare"),
        [_memory_row(use) for use in plan.devices],
    )
    yield from _states(plan)
    for use in plan.devices:
        if use.expected_activation_bytes not in (None, use.activation_bytes):
            yield _expected(use, use.expected_activation_bytes or 0)
        if use.alive_at_peak:
            yield _alive(use)
    if plan.residencies:
        yield line("Weights: ", "; ".join(_weights(plan)))


def _states(plan: Plan) -> Iterator[RenderableType]:
    for use in plan.devices:
        if use.state_bytes:
            yield line("States on ", name(use.device), f": {format_bytes(use.state_bytes)}, from run to run")


def _memory_row(use: DeviceUse) -> tuple[str | Text, ...]:
    parts = (use.peak_bytes, use.weight_bytes, use.buffer_bytes, use.activation_bytes, use.session_bytes)
    budget = _NONE if use.budget_bytes is None else format_bytes(use.budget_bytes)
    return (name(use.device), budget, *map(format_bytes, parts), _spare(use))


def _spare(use: DeviceUse) -> Text:
    if use.headroom_bytes is None:
        return Text(_NONE)
    return Text(format_bytes(use.headroom_bytes), "green" if use.headroom_bytes >= 0 else "bold red")


def _expected(use: DeviceUse, nbytes: int) -> RenderableType:
    most = f", at most {format_bytes(use.activation_bytes)}: sizes are known only in a run"
    return line("Live on ", name(use.device), f": {format_bytes(nbytes)} expected by the access profile", most)


def _alive(use: DeviceUse) -> RenderableType:
    where = "" if use.peak_partition is None else f" (partition {use.peak_partition})"
    shown = use.alive_at_peak[:_ALIVE_SHOWN]
    values = Text(", ").join(Text.assemble(name(value.name), f" {format_bytes(value.nbytes)}") for value in shown)
    rest = use.alive_at_peak[len(shown) :]
    tail = (
        f" and {format_count(len(rest), 'more value')} ({format_bytes(sum(value.nbytes for value in rest))})"
        if rest
        else ""
    )
    return line("Alive at the peak of ", name(use.device), f"{where}, beside the weights: ", values, tail)


def _weights(plan: Plan) -> Iterator[str]:
    by_place = sorted(plan.residencies, key=lambda residency: (residency.state, residency.device))
    for (state, device), held in groupby(by_place, key=lambda residency: (residency.state, residency.device)):
        sizes = [residency.nbytes for residency in held]
        yield f"{len(sizes):,} {_HELD[state].format(name(device))} ({format_bytes(sum(sizes))})"


def partitions(plan: Plan) -> Iterator[RenderableType]:
    """The partitions in the order they run."""
    shown = plan.partitions[:MOST_PARTITIONS]
    by_op = {decision.op: decision for decision in plan.decisions}
    yield heading("Partitions", f"{len(plan.partitions):,}, in running order")
    if not shown:
        yield line("The model has no operator to run.")
        return
    yield table(
        (">#", "device", ">ops", ">predicted", ">weights", ">live", "mostly"),
        [_partition_row(partition, by_op) for partition in shown],
    )
    yield from more(len(plan.partitions), len(shown), "partition")


def _partition_row(partition: Partition, by_op: dict[str, Decision]) -> tuple[str | Text, ...]:
    return (
        str(partition.id),
        name(partition.device),
        f"{len(partition.ops):,}",
        format_seconds(partition.seconds),
        format_bytes(partition.weight_bytes),
        format_bytes(partition.peak_bytes),
        name(mostly(partition, by_op)),
    )


def copies(plan: Plan) -> Iterator[RenderableType]:
    """What crosses devices, by direction and by size, and what the caller keeps on an accelerator."""
    yield heading("Copies between devices", "predicted, once per run each")
    yield from _handed_over(plan)
    if not plan.transfers:
        yield line("Nothing crosses devices.")
        return
    for (source, target), grouped in groupby(sorted(plan.transfers, key=_direction), key=_direction):
        group = list(grouped)
        nbytes, seconds = sum(t.nbytes for t in group), sum(t.seconds for t in group)
        total = f": {format_count(len(group), 'copy')}, {format_bytes(nbytes)}, {_milliseconds(seconds)} ms"
        yield line(name(source), " → ", name(target), total)
    largest = nlargest(LARGEST_COPIES, plan.transfers, key=lambda transfer: transfer.nbytes)
    yield table((">bytes", ">ms", "from → to", "when", "value"), [_copy_row(copy, plan) for copy in largest])
    yield from more(len(plan.transfers), len(largest), "smaller copy")


def _handed_over(plan: Plan) -> Iterator[RenderableType]:
    for device in sorted(set(plan.homes.values())):
        kept = [value for value, home in sorted(plan.homes.items()) if home == device]
        yield line("Handed over on ", name(device), ": ", Text(", ").join(map(name, kept)))


def _direction(transfer: Transfer) -> tuple[str, str]:
    return transfer.source, transfer.target


def _copy_row(transfer: Transfer, plan: Plan) -> tuple[str | Text, ...]:
    ends = Text.assemble(name(transfer.source), " → ", name(transfer.target))
    return (
        format_bytes(transfer.nbytes),
        _milliseconds(transfer.seconds),
        ends,
        when(transfer, plan),
        name(transfer.value),
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def largest_ops(plan: Plan) -> Iterator[RenderableType]:
    """The ops that take longest where they are, and why they are there. Ops that are alike share a row."""
    alike: dict[tuple[str, ...], list[Decision]] = {}
    for decision in sorted(plan.decisions, key=own_seconds, reverse=True):
        alike.setdefault(_op_facts(decision), []).append(decision)
    if not alike:
        return
    yield heading("Largest ops", "predicted here and elsewhere, with the reason")
    rows = islice(alike.items(), LARGEST_OPS)
    yield table((">predicted", ">elsewhere", "device", "op"), [_op_row(facts, ops) for facts, ops in rows])


def _op_facts(decision: Decision) -> tuple[str, ...]:
    seconds = elsewhere_seconds(decision)
    elsewhere = "no kernel" if seconds is None else format_seconds(seconds)
    return format_seconds(own_seconds(decision)), elsewhere, decision.device, decision.op_type, decision.reason


def _op_row(facts: tuple[str, ...], alike: list[Decision]) -> tuple[str | Text, ...]:
    *numbers, device, op_type, reason = facts
    others = f" and {len(alike) - 1:,} alike" if len(alike) > 1 else ""
    first = alike[0]
    scope = f" in {first.scope}" if first.scope and first.scope not in first.op else ""
    code = f" at {code_of(first)}" if first.line else ""
    op = Text.assemble(name(op_type, "bold"), " ", name(first.op + scope + code), others, "\n", name(reason, "dim"))
    return *numbers, name(device), op
