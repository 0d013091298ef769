"""``hetpart report``: what a bundle's plan predicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.cli.guard import json_option
from hetpart.cli.plans import html_option, print_plan, project_rules, require_page, say_written, show_plan
from hetpart.cli.plots import Plot, draw, plan_plots_option, require_drawable, say_drawn
from hetpart.terminal import StageBar, stdout_kept_free

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.plan.model import Plan

_FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of ``hetpart report``."""

    bundle: Path
    html: Path | None
    trace: Path | None
    curve: Path | None
    lint: bool
    plots: tuple[Plot, ...]
    as_json: bool


@click.command()
@click.argument("bundle", type=_FILE)
@html_option
@click.option("--trace", type=_FILE, metavar="FILE", help="Show that run on the page: what `run --trace` wrote.")
@click.option("--curve", type=_FILE, metavar="FILE", help="Show that curve on the page: what `sweep --json` printed.")
@click.option("--lint/--no-lint", default=True, help="Whether the page holds what lint finds in the model.")
@plan_plots_option
@json_option
def report(**given: Any) -> None:
    """Print what the plan of BUNDLE predicts, and write it as a page with --html."""
    asked = ReportOptions(**given)
    if asked.html is None and (asked.trace or asked.curve):
        raise click.UsageError("--trace and --curve are shown on a page: add --html FILE")
    require_page(asked.html)
    require_drawable(asked.plots)
    from hetpart.plan.io import load_plan

    plan = load_plan(asked.bundle)
    with stdout_kept_free(wanted=asked.as_json), StageBar() as progress:
        _write_page(asked, plan, progress)
    draw(plan, asked.plots)
    if asked.as_json:
        print_plan("report", asked.bundle, plan)
    else:
        show_plan(plan)
        say_drawn(asked.plots)
        say_written(asked.html)


def _write_page(asked: ReportOptions, plan: Plan, progress: Callable[[str], None]) -> None:
    if asked.html is None:
        return
    from hetpart.report.page import write_page
    from hetpart.whatif.evidence import evidence_of_bundle

    evidence = evidence_of_bundle(
        asked.bundle, plan, trace=asked.trace, curve=asked.curve, rules=project_rules() if asked.lint else None,
        progress=progress,
    )  # fmt: skip
    progress("writing the page")
    write_page(evidence, asked.html)
