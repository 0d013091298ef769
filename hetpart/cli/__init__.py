"""The command line: wiring and exit codes. 0 is well, 1 does not fit or differs, 2 is bad input, 130 is interrupted."""

from __future__ import annotations

import click

from hetpart import __version__
from hetpart.cli.annotate import annotate
from hetpart.cli.bench import bench
from hetpart.cli.calibrate import calibrate
from hetpart.cli.defaults import option_defaults
from hetpart.cli.diff import diff
from hetpart.cli.emit import emit
from hetpart.cli.explain import explain
from hetpart.cli.export import export
from hetpart.cli.guard import Commands
from hetpart.cli.hardware import hardware
from hetpart.cli.lint import lint, rule
from hetpart.cli.partition import partition
from hetpart.cli.report import report
from hetpart.cli.run import run
from hetpart.cli.sweep import sweep


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hetpart")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Place every operator of a model on CPU or CUDA under a memory budget, and run the pieces."""
    ctx.default_map = option_defaults()


for command in (
    annotate,
    calibrate,
    partition,
    run,
    report,
    sweep,
    explain,
    diff,
    emit,
    export,
    bench,
    lint,
    rule,
    hardware,
):
    main.add_command(command)
