"""``hetpart annotate``: what the ops of a model cost on every device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.cli.guard import import_option, json_option, threads_option
from hetpart.cli.model_options import (
    access_option,
    hardware_option,
    shape_option,
    trip_count_option,
    weights_option,
)
from hetpart.cli.plots import plot_option
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetpart.cost_model.annotate import Costs
    from hetpart.cost_model.breakdown import Row

_STDOUT = Path("-")
_TABLE = ".csv"


@dataclass(frozen=True, slots=True)
class AnnotateOptions:
    """The options of ``hetpart annotate``."""

    model: Path
    hardware: str | None
    shape: tuple[str, ...]
    threads: int
    trip_count: tuple[str, ...]
    access: Path | None
    weights: Path | None
    by: str
    depth: int | None
    sort: str
    top: int
    csv: Path | None
    plot: Path | None
    as_json: bool

    def pricing(self) -> dict[str, Any]:
        """The keywords of ``hetpart.annotate``."""
        return {
            "hardware": self.hardware,
            "shape": self.shape or None,
            "threads": self.threads,
            "trip_count": self.trip_count,
            "access": self.access,
            "weights": self.weights,
        }


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@hardware_option
@shape_option
@threads_option
@trip_count_option
@access_option
@weights_option
@import_option
@click.option("--by", type=click.Choice(["op", "type", "scope"]), default="op", help="What a row is: op by default.")
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Names of a module's path that --by scope keeps.")
@click.option("--sort", default="time", metavar="KEY", help="time, bytes, flops, intensity or a device's name.")
@click.option("--top", type=click.IntRange(1), default=20, metavar="N", help="Rows of the table, 20 by default.")
@click.option(
    "--csv",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every row to a .csv file; - prints it.",
)
@plot_option("roofline")
@json_option
def annotate(**given: Any) -> None:
    """Price the ops of MODEL, an .onnx or .pt2 file, on every device."""
    asked = AnnotateOptions(**given)
    if asked.as_json and asked.csv == _STDOUT:
        raise click.UsageError("--json and --csv - cannot both print to standard output")
    if asked.depth is not None and asked.by != "scope":
        raise click.UsageError("--depth says how much of a module's path --by scope keeps; ask for that too")
    _require_writable(asked)
    with stdout_kept_free(wanted=asked.as_json or asked.csv == _STDOUT), StageBar() as progress:
        costs, rows = _priced(asked, progress)
        progress("writing the results")
        _write_files(asked, costs, rows)
    _print(asked, costs, rows)


def _require_writable(asked: AnnotateOptions) -> None:
    """Each file has a folder, and a table takes the place of nothing but a table: weights have other names."""
    if asked.csv is not None and asked.csv != _STDOUT:
        device = asked.csv.exists() and not asked.csv.is_file()
        if not device and asked.csv.suffix.lower() != _TABLE:
            raise click.UsageError(f"--csv {printable(str(asked.csv))}: end the name in {_TABLE}")
    for flag, path in (("--csv", asked.csv), ("--plot", asked.plot)):
        if path is not None and path != _STDOUT and not path.resolve().parent.is_dir():
            raise click.UsageError(f"{flag} {printable(str(path))}: its folder does not exist")


def _priced(asked: AnnotateOptions, progress: Callable[[str], None]) -> tuple[Costs, Sequence[Row]]:
    if asked.plot is not None:
        from hetpart.report.plots.figure import require_plots

        require_plots(asked.plot)
    progress("reading the model and pricing its operators")
    from hetpart import pricing
    from hetpart.cost_model.breakdown import ranked

    costs = pricing.annotate(asked.model, **asked.pricing())
    return costs, ranked(costs.rows(asked.by, asked.depth), asked.sort)


def _write_files(asked: AnnotateOptions, costs: Costs, rows: Sequence[Row]) -> None:
    if asked.csv is not None and asked.csv != _STDOUT:
        from hetpart.files import write_whole
        from hetpart.report.annotate_json import rows_csv

        write_whole(asked.csv, rows_csv(rows).encode())
    if asked.plot is not None:
        from hetpart.report.plots.roofline import plot_roofline

        plot_roofline(costs, asked.plot)


def _print(asked: AnnotateOptions, costs: Costs, rows: Sequence[Row]) -> None:
    if asked.as_json:
        from hetpart.report.annotate_json import costs_content

        content = costs_content(costs, rows)
        print_json("annotate", {"model": str(asked.model), "by": asked.by, "sort": asked.sort, **content})
    elif asked.csv == _STDOUT:
        from hetpart.report.annotate_json import rows_csv

        click.echo(rows_csv(rows), nl=False)
    else:
        from hetpart.report.annotate_text import costs_parts

        show(costs_parts(costs, rows, asked.by, asked.top))
        for written in filter(None, (asked.csv, asked.plot)):
            click.echo(f"\nWritten to {printable(str(written))}")
