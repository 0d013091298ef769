"""``hetpart report``: what a bundle's plan predicts."""

from __future__ import annotations

from pathlib import Path

import click

from hetpart.cli.guard import json_option
from hetpart.cli.plans import print_plan, show_plan
from hetpart.cli.plots import Plot, draw, plan_plots_option, require_drawable, say_drawn


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@plan_plots_option
@json_option
def report(bundle: Path, *, plots: tuple[Plot, ...], as_json: bool) -> None:
    """Print what the plan of BUNDLE predicts."""
    from hetpart.plan.io import load_plan

    require_drawable(plots)
    plan = load_plan(bundle)
    draw(plan, plots)
    if as_json:
        print_plan("report", bundle, plan)
    else:
        show_plan(plan)
        say_drawn(plots)
