"""``--plot [KIND=]FILE``: how every command that can draw something is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.report.escape import printable

if TYPE_CHECKING:
    from hetpart.plan.model import Plan

KINDS = ("roofline", "sweep", "timeline", "memory")


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture that was asked for."""

    kind: str
    path: Path


def _read(text: str, kinds: tuple[str, ...]) -> Plot:
    """The kind and the file in ``text``; where there is but one kind, the file alone. Its name may hold ``=``."""
    kind, mark, file = text.partition("=")
    if not mark or kind not in KINDS:
        kind, file = (kinds[0] if len(kinds) == 1 else ""), text
    if kind not in kinds or not file:
        forms = " or ".join(f"{known}=FILE" for known in kinds)
        raise click.BadParameter(f"{printable(text)} does not say what to draw here: write {forms}")
    return Plot(kind, Path(file))


def plot_option(kind: str) -> Callable[..., Any]:
    """``--plot`` of a command with one picture: the keyword ``plot`` is its path, or None."""

    def path(ctx: click.Context, param: click.Parameter, text: str | None) -> Path | None:
        del ctx, param
        return None if text is None else _read(text, (kind,)).path

    return click.option("--plot", callback=path, metavar="FILE", help=f"Draw the {kind}: .svg or .png.")


def _plots(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[Plot, ...]:
    del ctx, param
    return tuple(_read(text, ("timeline", "memory")) for text in texts)


plan_plots_option = click.option(
    "--plot",
    "plots",
    callback=_plots,
    multiple=True,
    metavar="KIND=FILE",
    help="Draw timeline=FILE or memory=FILE: .svg or .png. Repeatable.",
)


def require_drawable(plots: Sequence[Plot]) -> None:
    """Each of ``plots`` can be drawn, and none takes another's place: nothing is written where one cannot be.

    Raises:
        InvalidOptionError: a name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
    """
    if not plots:
        return
    from hetpart.report.plots.figure import require_plots

    for plot in plots:
        require_plots(plot.path)
    if len({plot.path.resolve() for plot in plots}) < len(plots):
        raise click.UsageError("two plots cannot both be written to one file")


def draw(plan: Plan, plots: Sequence[Plot]) -> None:
    """Draw every one of ``plots`` of ``plan``."""
    if not plots:
        return
    from hetpart.report.plots.of_plan import plot_plan

    for plot in plots:
        plot_plan(plan, plot.kind, plot.path)


def say_drawn(plots: Sequence[Plot]) -> None:
    """Name every file that was written."""
    for plot in plots:
        click.echo(f"\nWritten to {printable(str(plot.path))}")
