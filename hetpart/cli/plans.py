"""How a plan is shown, by whichever command made or read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.report.escape import printable
from hetpart.terminal import print_json, show

if TYPE_CHECKING:
    from hetpart.linter.select import Selection
    from hetpart.plan.model import Plan


_PAGES = (".html", ".htm")

html_option = click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as one HTML file, too."
)


def require_page(page: Path | None) -> None:
    """A page can be written there, over nothing but a page: that is known before anything takes time."""
    if page is None:
        return
    if page.suffix.lower() not in _PAGES:
        raise click.UsageError(f"--html {printable(str(page))}: end the name in {' or '.join(_PAGES)}")
    if not page.resolve().parent.is_dir():
        raise click.UsageError(f"--html {printable(str(page))}: its folder does not exist")


def project_rules() -> Selection:
    """The rules of lint that the project's settings choose."""
    from hetpart.linter.select import Selection, entries

    defaults = click.get_current_context().find_root().default_map or {}
    own: Any = defaults.get("lint") or {}
    return Selection(*(entries(own.get(name, ())) for name in ("select", "extend_select", "ignore")))


def say_written(page: Path | None) -> None:
    """Name the page, if there is one."""
    if page is not None:
        click.echo(f"\nWritten to {printable(str(page))}")


def print_plan(command: str, bundle: Path | None, plan: Plan) -> None:
    """Print ``plan`` as the JSON object of ``command``, with the bundle it lies in, if there is one."""
    from hetpart.report.json import plan_content

    print_json(command, {"bundle": None if bundle is None else str(bundle), **plan_content(plan)})


def show_plan(plan: Plan) -> None:
    """Print the placement report of ``plan``."""
    from hetpart.report.text import plan_parts

    show(plan_parts(plan))
