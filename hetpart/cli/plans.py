"""How a plan is shown, by whichever command made or read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.terminal import print_json, show

if TYPE_CHECKING:
    from hetpart.plan.model import Plan


def print_plan(command: str, bundle: Path, plan: Plan) -> None:
    """Print ``plan`` as the JSON object of ``command``, with the bundle it lies in."""
    from hetpart.report.json import plan_content

    print_json(command, {"bundle": str(bundle), **plan_content(plan)})


def show_plan(plan: Plan) -> None:
    """Print the placement report of ``plan``."""
    from hetpart.report.text import plan_parts

    show(plan_parts(plan))
