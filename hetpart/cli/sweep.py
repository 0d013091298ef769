"""``hetpart sweep``: latency against budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from hetpart.cli.guard import json_option
from hetpart.cli.model_options import request_options, taken_request
from hetpart.cli.plots import plot_option
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free

MISSED_EXIT = 1


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--budgets", metavar="LOW:HIGH", help="2GB:24GB, 2GB,4GB,8GB or 10%:100%; else none to all of the model.")
@click.option("--points", type=click.IntRange(2), metavar="N", help="Budgets of a range; about a dozen by default.")
@click.option("--hardware", metavar="NAMES", help="One machine, or several: l4,t4,rtx-4090+epyc.")
@click.option("--target", metavar="TIME", help="Find the smallest budget that reaches 20ms.")
@plot_option("sweep")
@request_options
@json_option
def sweep(model: Path, *, plot: Path | None, as_json: bool, **given: Any) -> None:
    """Show how the latency of MODEL, an .onnx or .pt2 file, falls as the budget grows.

    Exits with 1 where --target is asked for and no budget of any machine reaches it.
    """
    if plot is not None:
        from hetpart.report.plots.figure import require_plots

        require_plots(plot)
    with stdout_kept_free(wanted=as_json), StageBar() as progress:
        from hetpart.whatif.sweep import sweep as swept

        request = taken_request(given)
        found = swept(model, **given, **request, progress=progress)
        if plot is not None:
            found.plot(plot)
    if as_json:
        from hetpart.report.sweep_json import sweep_content

        print_json("sweep", sweep_content(found.sweep))
    else:
        from hetpart.report.sweep_text import sweep_parts

        show(sweep_parts(found.sweep))
        if plot is not None:
            click.echo(f"\nWritten to {printable(str(plot))}")
    if found.sweep.target_seconds is not None and found.sweep.smallest is None:
        sys.exit(MISSED_EXIT)
