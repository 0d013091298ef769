"""What text and Markdown say of the difference between two plans, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hetpart.plan.differences import Change, LoneOp, MovedOp, PlanDiff
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

MOST_ROWS = 20
"""Of ops and of weights, each; JSON holds all."""
_TYPES_SHOWN = 6
_NOTICEABLE = 5e-4
"""A share below which a figure is the same."""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of both plans."""

    label: str
    before: str
    after: str
    change: str
    beyond: bool
    """Whether it grew by more than is allowed."""


@dataclass(frozen=True, slots=True)
class MovedRow:
    """Ops that are alike and moved the same way."""

    ops: str
    ways: tuple[str, str]
    """From where to where."""
    before: str
    after: str
    reason: str


def figure_rows(diff: PlanDiff) -> list[FigureRow]:
    """Latency, peaks, copies: what is compared first."""
    beyond = {regression.what for regression in diff.regressions}
    rows: list[tuple[str, Change, Callable[[float], str]]] = [("latency", diff.seconds, format_seconds)]
    if diff.serial_seconds != diff.seconds:
        rows.append(("one after another", diff.serial_seconds, format_seconds))
    rows.append(("lower bound", diff.lower_bound, format_seconds))
    for device in diff.devices:
        rows.append((f"peak of {device.device}", device.peak_bytes, format_bytes))
        rows.append((f"weights on {device.device}", device.weight_bytes, format_bytes))
        rows.append((f"ops on {device.device}", device.ops, _number))
    rows.append(("copied bytes", diff.copied_bytes, format_bytes))
    rows += ((f"copies {way.direction.replace('->', ' → ')}", way.copies, _number) for way in diff.directions)
    rows.append(("partitions", diff.partitions, _number))
    return [_row(label, change, shown, beyond=label in beyond) for label, change, shown in rows]


def _number(figure: float) -> str:
    return f"{figure:,.0f}"


def _row(label: str, change: Change, shown: Callable[[float], str], *, beyond: bool) -> FigureRow:
    return FigureRow(label, shown(change.before), shown(change.after), signed(change), beyond)


def signed(change: Change) -> str:
    """``+12 %``; ``=`` where nothing changed that shows; ``new`` where there was nothing before."""
    if change.share is None:
        return "new"
    if abs(change.share) < _NOTICEABLE:
        return "="
    return f"{'+' if change.share > 0 else '−'}{format_percent(abs(change.share))}"


def verdict(diff: PlanDiff) -> str:
    """The one sentence that a reviewer needs."""
    change = diff.seconds
    latency = f"{format_seconds(change.before)} → {format_seconds(change.after)}"
    if change.share is not None and abs(change.share) < _NOTICEABLE:
        return f"As fast as before: {latency}"
    word = "Slower" if change.after > change.before else "Faster"
    return f"{word}: {latency} ({signed(change)})"


def refused(diff: PlanDiff) -> str:
    """Which figures grew by more than is allowed; nothing where none did."""
    if diff.max_regression is None or not diff.regressions:
        return ""
    grown = ", ".join(f"{found.what} ({signed(found.change)})" for found in diff.regressions)
    return f"More than {format_percent(diff.max_regression)} worse: {grown}"


def moved_rows(diff: PlanDiff) -> list[MovedRow]:
    """Ops that moved, those that are alike in one row, the longest first."""
    alike: dict[tuple[str, str, str], list[MovedOp]] = {}
    for moved in diff.moved:
        alike.setdefault((moved.op_type, moved.device_before, moved.device_after), []).append(moved)
    ranked = sorted(alike.values(), key=lambda ops: -sum(op.seconds.after for op in ops))
    return [_moved_row(ops) for ops in ranked[:MOST_ROWS]]


def _moved_row(ops: Sequence[MovedOp]) -> MovedRow:
    first = ops[0]
    others = f" and {len(ops) - 1:,} alike" if len(ops) > 1 else ""
    return MovedRow(
        f"{first.op_type} {named(first.op, first.scope)}{others}",
        (first.device_before, first.device_after),
        format_seconds(sum(op.seconds.before for op in ops)),
        format_seconds(sum(op.seconds.after for op in ops)),
        first.reason,
    )


def named(op: str, scope: str) -> str:
    """The op's name, with its module where the name does not say it."""
    return op if not scope or op.strip("/").replace("/", ".").startswith(scope) else f"{op} in {scope}"


def counted(ops: Iterable[LoneOp]) -> str:
    """How many ops of which types, the most frequent first, and what they take."""
    listed = list(ops)
    types = sorted(Counter(op.op_type for op in listed).items(), key=lambda row: (-row[1], row[0]))
    shown = ", ".join(f"{op_type} ×{number}" if number > 1 else op_type for op_type, number in types[:_TYPES_SHOWN])
    rest = ", …" if len(types) > _TYPES_SHOWN else ""
    return f"{format_count(len(listed), 'op')} ({shown}{rest}), {format_seconds(sum(op.seconds for op in listed))}"


def weight_rows(diff: PlanDiff) -> Iterator[tuple[str, str, str, str]]:
    """Mark, bytes, place and name of weights that appeared, vanished or changed."""
    for weight in diff.weights_appeared[:MOST_ROWS]:
        yield "+", format_bytes(weight.nbytes), ", ".join(weight.held), weight.weight
    for weight in diff.weights_vanished[:MOST_ROWS]:
        yield "−", format_bytes(weight.nbytes), ", ".join(weight.held), weight.weight
    for change in diff.weights_changed[:MOST_ROWS]:
        old, new = change.before, change.after
        nbytes = _both(format_bytes(old.nbytes), format_bytes(new.nbytes))
        yield "≠", nbytes, _both(", ".join(old.held), ", ".join(new.held)), new.weight


def _both(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def left_out(diff: PlanDiff) -> list[str]:
    """What the tables do not show, in words."""
    moved = len({(op.op_type, op.device_before, op.device_after) for op in diff.moved}) - MOST_ROWS
    weights = sum(
        max(0, len(found) - MOST_ROWS) for found in (diff.weights_appeared, diff.weights_vanished, diff.weights_changed)
    )
    counts = ((moved, "kind of moved op", "kinds of moved ops"), (weights, "weight", "weights"))
    return [f"… and {number:,} more {one if number == 1 else many}" for number, one, many in counts if number > 0]
