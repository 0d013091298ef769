"""A plan as a notebook shows it: a few lines of HTML that need nothing else and run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from hetpart.plan.figures import DeviceUse
from hetpart.plan.model import Plan
from hetpart.plan.predicted import predicted_run
from hetpart.report.escape import printable
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_CELL = "padding:2px 10px 2px 0;text-align:{}"
_BAR = "display:inline-block;width:8em;border:1px solid currentColor;vertical-align:middle"
_FILL = "display:block;height:.7em;width:{:.0f}%;background:currentColor;opacity:.6"


def plan_html(plan: Plan) -> str:
    """Verdict, latency and memory of every device. It takes the colours of the page around it."""
    return f'<div style="font-family:system-ui,sans-serif;font-size:.9em">{"".join(_parts(plan))}</div>'


def _parts(plan: Plan) -> Iterator[str]:
    model = plan.model
    facts = f"{format_count(model.ops, 'op')}, {format_bytes(model.weight_bytes)} of weights"
    yield f"<div><b>{_text(model.name)}</b> – {facts}, on {_text(plan.machine.name)}</div>"
    yield f"<div>{_latency(plan)}</div>"
    heads = ("device", "ops", "compute", "peak", "budget", "")
    yield '<table style="border-collapse:collapse;margin:.4em 0">'
    yield _row(heads, "th")
    yield from (_row(_cells(use), "td") for use in plan.devices)
    yield "</table>"
    copied = format_bytes(sum(copy.nbytes for copy in plan.transfers))
    cuts = f"{format_count(len(plan.partitions), 'partition')}, {format_count(len(plan.transfers), 'copy')} of {copied}"
    yield f"<div>{cuts}; at most {format_percent(plan.certificate.gap)} of the latency is above the bound</div>"


def _latency(plan: Plan) -> str:
    run = predicted_run(plan)
    how = "devices and copies at work at the same time" if run.overlapped else "one op after another"
    return f"Predicted latency <b>{format_seconds(run.seconds)}</b>, {how}"


def _cells(use: DeviceUse) -> tuple[str, ...]:
    budget = "–" if use.budget_bytes is None else format_bytes(use.budget_bytes)
    device = f"{_text(use.device)} ({_text(use.model)})"
    return device, f"{use.ops:,}", format_seconds(use.seconds), format_bytes(use.peak_bytes), budget, _bar(use)


def _bar(use: DeviceUse) -> str:
    """How much of the budget is used, in a picture and in words."""
    if not use.budget_bytes:
        return ""
    share = use.peak_bytes / use.budget_bytes
    fits = "" if share <= 1 else ", does not fit"
    filled = _FILL.format(100 * min(1.0, share))
    return f'<span style="{_BAR}"><span style="{filled}"></span></span> {format_percent(share)}{fits}'


def _row(cells: Iterable[str], kind: str) -> str:
    """The first cell is of a name, the last of a picture, the rest of numbers."""
    listed = list(cells)
    sides = ["left", *["right"] * (len(listed) - 2), "left"]
    inside = (f'<{kind} style="{_CELL.format(side)}">{cell}</{kind}>' for cell, side in zip(listed, sides, strict=True))
    return f"<tr>{''.join(inside)}</tr>"


def _text(name: str) -> str:
    return escape(printable(name))
