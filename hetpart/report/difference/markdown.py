"""The difference between two plans as Markdown, for a comment on a pull request or a step's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hetpart.plan.differences import PlanDiff, PlanSide
from hetpart.report.difference import rows
from hetpart.report.escape import markdown_text
from hetpart.units import format_count


def as_markdown(diff: PlanDiff) -> str:
    """The same as the text says, in tables. Nothing in a name is markup."""
    return "\n".join(_lines(diff)) + "\n"


def _lines(diff: PlanDiff) -> Iterator[str]:
    yield f"**{markdown_text(rows.verdict(diff))}**"
    if rows.refused(diff):
        yield from ("", f"❌ {markdown_text(rows.refused(diff))}")
    yield from ("", f"Before: {_side(diff.before)}<br>After: {_side(diff.after)}", "")
    yield from _table(("figure", "before", "after", "change"), map(_figure_row, rows.figure_rows(diff)))
    if diff.moved:
        yield from ("", f"**{format_count(len(diff.moved), 'op')} moved**", "")
        yield from _table(("before", "after", "from → to", "op", "reason"), map(_moved_row, rows.moved_rows(diff)))
    for what, ops in (("appeared", diff.ops_appeared), ("vanished", diff.ops_vanished)):
        if ops:
            yield from ("", f"**Ops that {what}:** {markdown_text(rows.counted(ops))}")
    weights = list(rows.weight_rows(diff))
    if weights:
        yield from ("", "**Weights** (+ appeared, − vanished, ≠ changed)", "")
        yield from _table(("", "bytes", "held", "weight"), weights)
    yield from (f"\n{markdown_text(words)}" for words in rows.left_out(diff))
    yield from (f"\n> {markdown_text(note)}" for note in diff.notes)


def _side(side: PlanSide) -> str:
    return f"{markdown_text(side.path or side.model)} on {markdown_text(side.machine)}"


def _figure_row(row: rows.FigureRow) -> tuple[str, ...]:
    return row.label, row.before, row.after, f"{row.change}{' ❌' if row.beyond else ''}"


def _moved_row(row: rows.MovedRow) -> tuple[str, ...]:
    return row.before, row.after, " → ".join(row.ways), row.ops, row.reason


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cells in body:
        yield f"| {' | '.join(map(markdown_text, cells))} |"
