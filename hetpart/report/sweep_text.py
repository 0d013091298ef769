"""Latency against budget as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.curves import Curve, CurvePoint, Sweep, TargetBudget
from hetpart.report.layout import Cell, heading, labelled, line, name, table
from hetpart.report.sentences import needs
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_NONE = "–"
_KNEE = "◆"
_HOLDING = "*"
_PROVEN = 1e-6
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_LEGEND = (
    "bound: no placement is faster, session overheads left out; takes: what the plan holds on {device}, a budget that "
    "would do; buys: the most per byte on the way to a later budget (–: there is none); ◆: from here on more memory "
    "buys much less"
)
_OF_THOSE_THAT_HOLD = f"; {_HOLDING}: no placement that streams no weight is faster"


def sweep_parts(sweep: Sweep) -> Iterator[RenderableType]:
    """The model, the machines side by side where there are several, then the curve of each."""
    yield labelled([("Model", Text.assemble(name(sweep.path or sweep.model, "bold"), " – ", _model(sweep)))])
    if len(sweep.curves) > 1:
        yield from _side_by_side(sweep)
    for curve in sweep.curves:
        yield from _curve(curve, sweep.target_seconds, several=len(sweep.curves) > 1)
    notes = dict.fromkeys([*sweep.notes, *(note for curve in sweep.curves for note in curve.notes)])
    if notes:
        yield heading("Notes")
        yield labelled([("•", name(note)) for note in notes], 2)


def _model(sweep: Sweep) -> Text:
    facts = [format_count(sweep.ops, "op"), f"{format_bytes(sweep.weight_bytes)} of weights"]
    return name(", ".join([*facts, *(f"{dim}={size}" for dim, size in sorted(sweep.dimensions.items()))]))


def _side_by_side(sweep: Sweep) -> Iterator[RenderableType]:
    asked = sweep.target_seconds
    yield heading("Machines", "predicted; the best latency of each under the budgets asked about")
    headers = ["hardware", ">memory", ">model takes", ">best", ">with"]
    target = [] if asked is None else [f">for {format_seconds(asked)}"]
    yield table([*headers, *target], [_machine_row(curve, sweep) for curve in sweep.curves])
    if sweep.smallest is not None and asked is not None:
        assert sweep.smallest.target is not None
        budget = format_bytes(sweep.smallest.target.budget_bytes or 0)
        yield line(f"The smallest budget for {format_seconds(asked)}: ", (budget, "bold"), " on ",
                   name(sweep.smallest.hardware, "bold"), ".")  # fmt: skip


def _machine_row(curve: Curve, sweep: Sweep) -> list[Cell]:
    best = next((point for point in curve.points if point.seconds == curve.best_seconds), None)
    row: list[Cell] = [
        name(curve.hardware),
        format_bytes(curve.memory_bytes),
        format_bytes(curve.footprint_bytes),
        _time(curve.best_seconds),
        _size(best.peak_bytes if best else None),
    ]
    if sweep.target_seconds is not None:
        row.append(_size(curve.target.budget_bytes if curve.target else None))
    return row


def _curve(curve: Curve, target: float | None, *, several: bool) -> Iterator[RenderableType]:
    scale, unit = _unit(curve)
    best = curve.best_seconds
    title = Text.assemble("\n", (f"Latency against the budget of {curve.device}", "bold"))
    yield Text.assemble(title, " on " if several else "", name(curve.hardware if several else "", "bold"),
                        ("  predicted, ops one after another", "dim"))  # fmt: skip
    yield labelled([("Machine", Text.assemble(name(curve.machine, "bold"), " – ", name(curve.origin)))], 2)
    yield table(
        ("", ">budget", ">latency", ">×best", ">bound", ">gap", ">takes", ">parts", f">+1 {unit} buys"),
        _without_repetition([_row(point, best, scale) for point in curve.points]),
    )
    holding = "" if all(point.of_all for point in curve.points) else _OF_THOSE_THAT_HOLD
    yield line((_LEGEND.format(device=curve.device) + holding, "dim"))
    yield from (line(sentence) for sentence in _findings(curve, target))


def _without_repetition(rows: list[list[Cell]]) -> Iterator[list[Cell]]:
    """Of rows that differ in their budget alone the first and the last."""
    facts = [[str(cell) for cell in row[2:]] for row in rows]
    for number, row in enumerate(rows):
        inner = 0 < number < len(rows) - 1 and facts[number - 1] == facts[number] == facts[number + 1]
        if not inner or str(row[0]):
            yield row
        elif number > 1 and facts[number - 2] == facts[number]:
            continue
        else:
            yield ["", "…", *([""] * (len(row) - 2))]


def _unit(curve: Curve) -> tuple[int, str]:
    """The largest unit that is less than the largest budget."""
    largest = curve.points[-1].budget_bytes
    return next((row for row in _UNITS if row[0] < largest), _UNITS[-1])


def _row(point: CurvePoint, best: float | None, scale: int) -> list[Cell]:
    budget = format_bytes(point.budget_bytes)
    if point.seconds is None or point.gap is None:
        return ["", budget, Text("does not fit", "red"), "", "", "", needs(point), "", ""]
    style = "bold" if point.knee else ""
    return [
        Text(_KNEE if point.knee else "", "yellow"),
        Text(budget, style),
        Text(format_seconds(point.seconds), style),
        f"{point.seconds / best:.2f}" if best else _NONE,
        f"{_time(point.lower_bound)}{'' if point.of_all else _HOLDING}",
        "0" if point.gap <= _PROVEN else format_percent(point.gap),
        _size(point.peak_bytes),
        f"{point.partitions:,}",
        _buys(point, scale),
    ]


def _buys(point: CurvePoint, scale: int) -> str:
    if point.price is None:
        return _NONE
    return format_seconds(point.price * scale) if point.price else "nothing"


def _time(seconds: float | None) -> str:
    return _NONE if seconds is None else format_seconds(seconds)


def _size(nbytes: int | None) -> str:
    return _NONE if nbytes is None else format_bytes(nbytes)


def _findings(curve: Curve, target: float | None) -> Iterator[Text]:
    for point in curve.points:
        if point.knee and point.seconds is not None:
            yield Text.assemble("Knee: ", (format_bytes(point.budget_bytes), "bold"), f" for {_time(point.seconds)}.")
    if curve.target is not None and target is not None:
        yield _reached(curve, curve.target, format_seconds(target))


def _reached(curve: Curve, found: TargetBudget, asked: str) -> Text:
    if found.budget_bytes is None:
        largest, best = format_bytes(curve.points[-1].budget_bytes), _time(curve.best_seconds)
        proven = "No placement reaches" if found.impossible else "No placement was found that reaches"
        return Text.assemble(("Target: ", "bold"), f"{proven} {asked} with {largest}; the best is {best}.")
    budget = Text(format_bytes(found.budget_bytes), "bold")
    proof = f"; {_size(found.too_small_bytes)} is provably too little" if found.too_small_bytes is not None else ""
    what = Text.assemble("the host alone does it" if not found.budget_bytes else Text.assemble(budget, " does it"))
    return Text.assemble(("Target: ", "bold"), f"{asked}: ", what, f", in {_time(found.seconds)}{proof}.")
