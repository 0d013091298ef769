"""``hetpart diff``: what a change did to a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hetpart.cli.guard import json_option
from hetpart.cli.model_options import budget_option, hardware_option, request_options, taken_request
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, show, stdout_kept_free

if TYPE_CHECKING:
    from hetpart.plan.differences import PlanDiff

REGRESSED_EXIT = 1
_TEXT, _JSON = "text", "json"
_FORMATS = (_TEXT, "markdown", _JSON)


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--max-regression", metavar="SHARE", help="Exit with 1 where latency, a peak or copied bytes grew by more: 5%."
)
@click.option("--format", "form", type=click.Choice(_FORMATS), default=_TEXT, help="How it is written.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there.")
@budget_option
@hardware_option
@request_options
@json_option
def diff(before: Path, after: Path, *, form: str, output: Path | None, as_json: bool, **given: Any) -> None:
    """Show how AFTER differs from BEFORE: two bundles or plan files, or two models.

    Models are partitioned first, with the same options. Exits with 0, with 1 above --max-regression, and with 2 where
    something cannot be read.
    """
    form = _JSON if as_json else form
    with stdout_kept_free(wanted=form != _TEXT), StageBar() as progress:
        from hetpart.whatif.diff import diff as differing
        from hetpart.whatif.diff import names_plan

        if names_plan(before) and names_plan(after):
            given |= dict.fromkeys(filter(_is_setting, given))
        request = taken_request(given)
        found = differing(before, after, **{**given, "budget": given["budget"] or None}, **request, progress=progress)
    if output is None:
        _print(found, form)
    else:
        _write(found, form, output)
    if found.regressions:
        sys.exit(REGRESSED_EXIT)


def _is_setting(option: str) -> bool:
    """Whether a project's settings say it, for models: they are not meant where nothing is partitioned."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT_MAP


def _print(found: PlanDiff, form: str) -> None:
    if form != _TEXT:
        click.echo(_text(found, form), nl=False)
        return
    from hetpart.report.difference.text import diff_parts

    show(diff_parts(found))


def _write(found: PlanDiff, form: str, output: Path) -> None:
    from hetpart.files import write_whole
    from hetpart.report.difference.rows import verdict

    write_whole(output, _text(found, form).encode())
    click.echo(f"{verdict(found)}. Written to {printable(str(output))}")


def _text(found: PlanDiff, form: str) -> str:
    from hetpart.report.difference.formats import FORMATS

    return FORMATS[form](found)
