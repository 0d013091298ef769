"""What the ops of a model cost, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from hetpart.cost_model.annotate import Costs
from hetpart.cost_model.breakdown import By, OnDevice, Row, total_of
from hetpart.cost_model.roofline import Bound
from hetpart.report.layout import heading, labelled, line, name, table
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_LONGEST_SCOPE = 16
_NONE = "–"
_NO_MODULE = "(no module)"
_FLOPS_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TITLES = {By.OP: "Ops", By.TYPE: "Op types", By.SCOPE: "Modules"}
_LEGEND = (
    "C compute-bound, M memory-bound, L launch-bound; share of the time with every op on its fastest device, no copies"
)
_LACKING = f"; {_NONE} no kernel on that device"
_REASONS = 3
"""Of ops without a kernel, that are shown."""
_MARKS = {Bound.COMPUTE: ("C", "red"), Bound.MEMORY: ("M", "cyan"), Bound.LAUNCH: ("L", "yellow")}


def costs_parts(costs: Costs, rows: Sequence[Row], by: str, top: int) -> Iterator[RenderableType]:
    """What all ops cost on every device, then the first ``top`` of ``rows``."""
    total = total_of(costs)
    yield labelled(_opening(costs, total))
    yield heading(_TITLES[By(by)], "predicted; each device's time as if all of the row ran there")
    yield table(_headers(costs, by), [_row(row, total.seconds, by) for row in rows[:top]])
    lacking = any(there.seconds is None for row in rows[:top] for there in row.devices)
    yield line((_LEGEND + (_LACKING if lacking else ""), "dim"))
    yield from (line((f"{_NONE} {why}", "dim")) for why in _lacking(costs))
    if len(rows) > top:
        yield line((f"… and {format_count(len(rows) - top, 'row')} more: --top N, --csv FILE or --json", "dim"))


def _opening(costs: Costs, total: Row) -> Iterator[tuple[str | Text, str | Text]]:
    machine = costs.machine
    yield "Model", name(costs.graph.name, "bold")
    yield "Machine", Text.assemble(name(machine.name, "bold"), " – ", name(machine.origin))
    moved = f"{format_flops(total.flops)}, {format_bytes(total.bytes_moved)} read or written"
    yield "Ops", f"{format_count(total.ops, 'op')}: {moved}, {total.intensity:.3g} FLOP/B"
    for device, there in zip(machine.devices, total.devices, strict=True):
        yield name(device.name), Text.assemble(name(device.model), ": ", _whole(there))
    yield from (("Note", name(note)) for note in costs.notes)


def _lacking(costs: Costs) -> Iterator[str]:
    """Why ops have no kernel on a device, each reason once with the first of its ops."""
    first: dict[str, str] = {}
    for cost in costs.ops:
        for why in filter(None, cost.missing):
            first.setdefault(why, costs.graph.ops[cost.op].name)
    yield from (f"{op}: {why}" for why, op in list(first.items())[:_REASONS])
    if len(first) > _REASONS:
        yield f"… and {format_count(len(first) - _REASONS, 'reason')} more: --json"


def _whole(there: OnDevice) -> str:
    """Seconds of everything on one device, and what they are made of."""
    if not there.seconds:
        none = "no op has a kernel there" if there.ops_without_kernel else "no op to run"
        return none if there.seconds is None else "no time"
    parts = sorted(there.bound_seconds.items(), key=lambda part: -part[1])
    shares = {bound: format_percent(seconds / there.seconds) for bound, seconds in parts if seconds}
    bounds = ", ".join(f"{share} {bound}-bound" for bound, share in shares.items())
    lacking = f"; {format_count(there.ops_without_kernel, 'op')} without a kernel" if there.ops_without_kernel else ""
    return f"{format_seconds(there.seconds)}, {bounds}{lacking}"


def _headers(costs: Costs, by: str) -> list[str]:
    devices = [header for device in costs.machine.devices for header in (f">{device.name}", "")]
    return ["op" if by == By.OP else by, "type" if by == By.OP else ">ops", *devices, *_FIGURES]


_FIGURES = (">share", ">flops", ">bytes", ">FLOP/B")


def _row(row: Row, whole: float, by: str) -> list[str | Text]:
    return [
        name(row.name or _NO_MODULE),
        _kind(row) if by == By.OP else f"{row.ops:,}",
        *(cell for there in row.devices for cell in _on(there)),
        format_percent(row.seconds / whole) if whole else _NONE,
        format_flops(row.flops).removesuffix("FLOP").strip(),
        format_bytes(row.bytes_moved),
        f"{row.intensity:.3g}",
    ]


def _kind(row: Row) -> Text:
    """The op's type, and its module where the op's name does not hold it: exporters may just number the nodes."""
    within = row.name.replace("/", ".")
    return name(row.op_type if row.scope in within else f"{row.op_type} in {_end(row.scope)}")


def _end(scope: str) -> str:
    """As many of the path's last names as a table has room for."""
    names = scope.split(".")
    ends = (".".join(names[start:]) for start in range(len(names)))
    end = next((end for end in ends if len(end) <= _LONGEST_SCOPE), names[-1])
    return end if end == scope else f"…{end}"


def _on(there: OnDevice) -> tuple[Text, Text]:
    if there.seconds is None or there.bound is None:
        return Text(_NONE), Text()
    return Text(format_seconds(there.seconds)), Text(*_MARKS[there.bound])


def format_flops(flops: float) -> str:
    """``flops`` with three significant digits: ``1.23 GFLOP``."""
    scale, prefix = next((unit for unit in _FLOPS_UNITS if flops >= unit[0]), (1.0, ""))
    return f"{flops / scale:.3g} {prefix}FLOP"
