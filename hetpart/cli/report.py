"""``hetpart report``: what a bundle's plan predicts."""

from __future__ import annotations

from pathlib import Path

import click

from hetpart.cli.guard import json_option
from hetpart.cli.plans import print_plan, show_plan


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def report(bundle: Path, *, as_json: bool) -> None:
    """Print what the plan of BUNDLE predicts."""
    from hetpart.plan.io import load_plan

    plan = load_plan(bundle)
    if as_json:
        print_plan("report", bundle, plan)
    else:
        show_plan(plan)
