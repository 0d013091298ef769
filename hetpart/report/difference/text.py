"""The difference between two plans as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.differences import PlanDiff, PlanSide
from hetpart.report.difference import rows
from hetpart.report.layout import INDENT, heading, labelled, line, name, table
from hetpart.units import format_bytes, format_count


def diff_parts(diff: PlanDiff) -> Iterator[RenderableType]:
    """Verdict, figures, what moved, what came and went."""
    yield labelled([("Before", _side(diff.before)), ("After", _side(diff.after))])
    yield Text()
    yield Text(rows.verdict(diff), "bold")
    if rows.refused(diff):
        yield Text(rows.refused(diff), "bold red")
    yield from _figures(diff)
    yield from _moved(diff)
    yield from _lone(diff)
    yield from _weights(diff)
    for words in rows.left_out(diff):
        yield line((f"{words}: `hetpart diff --format json` lists them all", "dim"))
    if diff.notes:
        yield heading("Notes")
        yield labelled([("•", name(note)) for note in diff.notes], INDENT)


def _side(side: PlanSide) -> Text:
    facts = f" – {format_count(side.ops, 'op')}, {format_bytes(side.weight_bytes)} of weights, on "
    return Text.assemble(name(side.path or side.model, "bold"), facts, name(side.machine))


def _figures(diff: PlanDiff) -> Iterator[RenderableType]:
    yield heading("Figures", "predicted")
    yield table(("", ">before", ">after", ">change"), map(_figure_row, rows.figure_rows(diff)))


def _figure_row(row: rows.FigureRow) -> tuple[str | Text, ...]:
    return name(row.label), row.before, row.after, Text(row.change, "bold red" if row.beyond else "")


def _moved(diff: PlanDiff) -> Iterator[RenderableType]:
    if not diff.moved:
        return
    yield heading(f"{format_count(len(diff.moved), 'op')} moved", "predicted where each is")
    yield table((">before", ">after", "from → to", "op"), map(_moved_row, rows.moved_rows(diff)))


def _moved_row(row: rows.MovedRow) -> tuple[str | Text, ...]:
    ways = Text.assemble(name(row.ways[0]), " → ", name(row.ways[1]))
    return row.before, row.after, ways, Text.assemble(name(row.ops), "\n", name(row.reason, "dim"))


def _lone(diff: PlanDiff) -> Iterator[RenderableType]:
    for what, ops in (("appeared", diff.ops_appeared), ("vanished", diff.ops_vanished)):
        if ops:
            yield heading(f"Ops that {what}")
            yield line(name(rows.counted(ops)))


def _weights(diff: PlanDiff) -> Iterator[RenderableType]:
    found = list(rows.weight_rows(diff))
    if found:
        yield heading("Weights", "+ appeared, − vanished, ≠ changed")
        yield table(("", ">bytes", "held", "weight"), map(_named_row, found))


def _named_row(row: Iterable[str]) -> tuple[Text, ...]:
    return tuple(map(name, row))
