"""Why an op is where it is, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.explanation import Explanation, Forced, Side
from hetpart.report.layout import Cell, heading, labelled, line, name, table
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_NONE = "–"
_OPS_SHOWN = 4
_COPIES_SHOWN = 5
_HOST = "cpu"
"""Whose memory has no price."""
_UNKNOWN = "not known"
_NO_PRICE = (
    "Worth: no price of a byte is known here, for values that are alive fill the budget, or the gap is open; a sweep "
    "shows what memory buys."
)
_ROUNDING = 1e-9


def explanation_parts(explained: Explanation) -> Iterator[RenderableType]:
    """The op and its reason; what it costs on each side; the best plans with it elsewhere."""
    yield labelled(_opening(explained))
    yield from _sides(explained)
    yield from _elsewhere(explained)
    if explained.notes:
        yield heading("Notes")
        yield labelled([("•", name(note)) for note in explained.notes], 2)


def _opening(explained: Explanation) -> Iterator[tuple[str, Text]]:
    yield "Machine", Text.assemble(name(explained.machine, "bold"), " – ", name(explained.origin))
    budgets = ", ".join(f"{format_bytes(nbytes)} of {device}" for device, nbytes in sorted(explained.budgets.items()))
    yield "Model", Text.assemble(name(explained.path or explained.model, "bold"), " – ", name(f"budget {budgets}"))
    scope = f" in {explained.scope}" if explained.scope else ""
    yield "Op", Text.assemble(name(explained.op, "bold"), name(f" – {explained.op_type}{scope}"))
    if explained.others:
        yield "Longest of", name(f"{explained.asked}, with {_listed(explained.others)}")
    if explained.source:
        yield "From", name(explained.source)
    where = f", partition {explained.partition} of {explained.partitions}"
    pinned = ", where it is pinned" if explained.pinned else ""
    yield "Runs on", Text.assemble(name(explained.device, "bold"), pinned, where)
    yield "Because", name(explained.reason)
    if explained.together:
        yield "Together", name(f"with {_listed(explained.together)}: fused or colocated, they share a device")


def _listed(ops: Sequence[str]) -> str:
    rest = len(ops) - _OPS_SHOWN
    return ", ".join(ops[:_OPS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _sides(explained: Explanation) -> Iterator[RenderableType]:
    group = len(explained.together) > 0
    yield heading("Here and there", "predicted, every other op where the plan has it")
    headers = ["on", ">the op", *([">with its group"] if group else []), ">weights held", ">worth", ">copies it causes"]
    yield table([*headers, ">model", ""], [_side_row(explained, side, group=group) for side in explained.sides])
    yield from (_copies(side) for side in explained.sides if side.copies)
    if any(side.weight_seconds for side in explained.sides):
        worth = f"at the margin 1 MB more of the accelerator buys {format_seconds(explained.price * 1e6)}"
        yield line((f"Worth: what these bytes would buy elsewhere; {worth}.", "dim"))
    elif not explained.price_known:
        yield line((_NO_PRICE, "dim"))


def _side_row(explained: Explanation, side: Side, *, group: bool) -> list[Cell]:
    copies = format_seconds(side.copy_seconds) if side.copies else "none"
    return [
        name(side.device, "bold" if side.chosen else ""),
        _time(side.seconds),
        *([_time(side.group_seconds)] if group else []),
        format_bytes(side.weight_bytes),
        _worth(explained, side),
        copies,
        _time(side.total_seconds),
        _verdict(side),
    ]


def _worth(explained: Explanation, side: Side) -> str:
    if side.weight_seconds:
        return format_seconds(side.weight_seconds)
    return _NONE if explained.price_known or side.device == _HOST or not side.weight_bytes else _UNKNOWN


def _verdict(side: Side) -> Text:
    if side.obstacle:
        return name(side.obstacle, "red")
    return Text("this plan") if side.chosen else Text() if side.fits else Text("over the budget", "red")


def _copies(side: Side) -> RenderableType:
    shown = [
        f"{copy.value} {format_bytes(copy.nbytes)} {copy.source} → {copy.target} in {format_seconds(copy.seconds)}"
        for copy in side.copies[:_COPIES_SHOWN]
    ]
    rest = len(side.copies) - _COPIES_SHOWN
    more = [f"and {format_count(rest, 'more copy')}"] if rest > 0 else []
    count = format_count(len(side.copies), "copy")
    return line(name(f"On {side.device} it causes {count}: {'; '.join([*shown, *more])}."))


def _elsewhere(explained: Explanation) -> Iterator[RenderableType]:
    yield heading("Elsewhere", "predicted, every other op placed anew")
    if not explained.forced:
        yield line("There is no other device.")
    for forced in explained.forced:
        yield line(*_best_there(explained, forced))
        if forced.seconds is not None:
            yield line(_proof(explained, forced))


def _best_there(explained: Explanation, forced: Forced) -> Iterator[Text]:
    if forced.seconds is None:
        needed = f" It would fit {format_bytes(forced.required_bytes)}." if forced.required_bytes else ""
        yield Text.assemble("Nothing runs it on ", name(forced.device), ": ", name(forced.obstacle), f".{needed}")
        return
    pieces = format_count(forced.partitions or 0, "partition")
    yield Text.assemble("The best plan found with it on ", name(forced.device, "bold"))
    yield Text.assemble(f" takes {_time(forced.seconds)} in {pieces}: ", _difference(explained, forced))


def _difference(explained: Explanation, forced: Forced) -> Text:
    assert forced.seconds is not None
    more = forced.seconds - explained.seconds
    ratio = format_percent(abs(more) / explained.seconds) if explained.seconds else ""
    if abs(more) <= _ROUNDING * explained.seconds:
        return Text.assemble(("as fast as this one", "bold"), ".")
    words = f"{format_seconds(abs(more))} ({ratio}) {'slower' if more > 0 else 'faster'}"
    lifted = " That is what the pin costs." if explained.pinned and more < 0 else ""
    missed = "" if explained.pinned or more > 0 else " The search for the best plan missed it: pin it there."
    return Text.assemble((words, "bold"), f" than {_time(explained.seconds)}.{lifted}{missed}")


def _proof(explained: Explanation, forced: Forced) -> str:
    assert forced.lower_bound is not None
    at_least = forced.lower_bound - explained.cost
    if at_least > _ROUNDING * explained.cost:
        least = _time(forced.lower_bound)
        return f"Proven: with it there no plan costs less than {least}, {format_seconds(at_least)} more than this one."
    return (
        f"Not proven: with it there a plan could cost as little as {_time(forced.lower_bound)}, "
        f"this one costs {_time(explained.cost)} (session overheads left out)."
    )


def _time(seconds: float | None) -> str:
    return _NONE if seconds is None else format_seconds(seconds)
