"""``hetpart lint`` and ``hetpart rule``: what is wrong with models, and what the rules are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hetpart.cli.model_options import budget_option, hardware_option, request_options, taken_request
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, stdout_kept_free

if TYPE_CHECKING:
    from hetpart.errors import UnknownDimensionError
    from hetpart.linter.rule import Rule
    from hetpart.plan.findings import Finding

FOUND_EXIT = 1
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_FORMATS = ("text", "json", "github", "sarif", "markdown", "junit")
_FOR_GITHUB = ("github", "sarif")
_COUNTED = ("text", "json")
"""Formats of --statistics."""
_STDOUT = Path("-")


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The options of ``hetpart lint`` that are not those of a plan."""

    models: tuple[Path, ...]
    budget: tuple[str, ...]
    hardware: str | None
    plan: Path | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    form: str
    output: Path | None
    fail_on: str
    exit_zero: bool
    statistics: bool
    baseline: Path | None
    write_baseline: bool


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@budget_option
@hardware_option
@click.option(
    "--plan", type=click.Path(path_type=Path), metavar="BUNDLE", help="A plan that was kept, to hold against."
)
@click.option("--select", multiple=True, metavar="RULES", help="Ask these alone: HPG,HPM002,dead-node or ALL.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Do not ask these.")
@click.option("--extend-select", multiple=True, metavar="RULES", help="Ask these, too.")
@click.option(
    "--format", "--output-format", "form", type=click.Choice(_FORMATS), default="text", help="How findings are written."
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write them there; - prints them.")
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note"]), default="warning", help="The least that fails."
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--statistics", is_flag=True, help="Print how often every rule fired instead.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Findings that are accepted.")
@click.option("--write-baseline", is_flag=True, help="Accept all that is found: write it to --baseline.")
@request_options
def lint(**given: Any) -> None:
    """Look for what costs time, memory or trust in MODELS, ONNX files.

    Exits with 0 where nothing is found, 1 where something is, 2 where a model or an option cannot be read.
    """
    placing = taken_request(given)
    asked = LintOptions(**given)
    if asked.write_baseline and asked.baseline is None:
        raise click.UsageError("--write-baseline needs --baseline FILE to write to")
    if asked.statistics and asked.form not in _COUNTED:
        raise click.UsageError(f"--statistics is written as {' or '.join(_COUNTED)}, not as {asked.form}")
    with stdout_kept_free(wanted=True), StageBar() as progress:
        found, unreadable = _found(asked, placing, progress)
    if asked.write_baseline and asked.baseline is not None:
        _accept(asked.baseline, found)
        _refuse(unreadable)
        return
    found = _without_accepted(asked, found)
    _print(asked, [*found, *unreadable])
    _refuse(unreadable)
    if _fails(asked, found):
        sys.exit(FOUND_EXIT)


def _found(
    asked: LintOptions, placing: dict[str, Any], progress: Callable[[str], None]
) -> tuple[list[Finding], list[Finding]]:
    """The findings of the models that can be read, and one for each that cannot."""
    from hetpart.errors import InvalidModelError
    from hetpart.linter.check import unreadable

    found: list[Finding] = []
    unread: list[Finding] = []
    absent: list[UnknownDimensionError | None] = []
    for model in asked.models:
        try:
            own, problem = _findings_of_own_shape(asked, model, placing, progress)
        except InvalidModelError as problem:
            if model.is_dir():  # no file that something is wrong with
                raise
            unread.append(unreadable(model, problem))
        else:
            found += own
            absent.append(problem)
    _refuse_absent(absent)
    return found, unread


def _findings_of_own_shape(
    asked: LintOptions, model: Path, placing: dict[str, Any], progress: Callable[[str], None]
) -> tuple[Sequence[Finding], UnknownDimensionError | None]:
    """The findings, dimensions that are another model's left out, and the problem that they are."""
    from hetpart.config import parse_shapes
    from hetpart.errors import UnknownDimensionError
    from hetpart.units import OPEN

    try:
        return _findings(asked, model, placing, progress), None
    except UnknownDimensionError as problem:
        sizes = {name: "?" if size == OPEN else size for name, size in parse_shapes(placing["shape"]).items()}
        known = {name: size for name, size in sizes.items() if name not in problem.dimensions}
        return _findings(asked, model, placing | {"shape": known}, progress), problem


def _refuse_absent(problems: Sequence[UnknownDimensionError | None]) -> None:
    """Refuse a dimension that no model has, unless a settings file names it, which other models share."""
    from hetpart.errors import InvalidOptionError

    first = next(iter(problems), None)
    source = click.get_current_context().get_parameter_source("shape")
    if first is None or source is ParameterSource.DEFAULT_MAP:
        return
    absent = set(first.dimensions)
    for problem in problems:
        absent &= problem.dimensions if problem else set()
    if absent:
        listed = " or ".join(map(repr, sorted(absent)))
        raise InvalidOptionError(f"no model given has a dimension {listed}", hint=first.hint)


def _refuse(unreadable: Sequence[Finding]) -> None:
    """Leave as bad input does where models cannot be read, now that all else is told."""
    from hetpart.errors import InvalidModelError

    if unreadable:
        first, *others = unreadable
        more = f" (and {len(others)} more models cannot be read)" if others else ""
        raise InvalidModelError(first.message + more, hint=first.hint)


def _findings(
    asked: LintOptions, model: Path, placing: dict[str, Any], progress: Callable[[str], None]
) -> Sequence[Finding]:
    from hetpart.whatif.lint import lint as found_in

    return found_in(
        model,
        budget=asked.budget or None,
        hardware=asked.hardware,
        plan=asked.plan,
        select=asked.select,
        ignore=asked.ignore,
        extend_select=asked.extend_select,
        progress=progress,
        **placing,
    )


def _without_accepted(asked: LintOptions, found: list[Finding]) -> list[Finding]:
    if asked.baseline is None:
        return found
    from hetpart.plan.accepted import new_findings

    return new_findings(found, asked.baseline)


def _accept(path: Path, found: Sequence[Finding]) -> None:
    from hetpart.plan.accepted import write_accepted
    from hetpart.units import format_count

    write_accepted(path, found)
    click.echo(f"{format_count(len(found), 'finding')} accepted in {printable(str(path))}")


def _print(asked: LintOptions, found: Sequence[Finding]) -> None:
    from hetpart.files import write_whole
    from hetpart.report.findings import FORMATS, STATISTICS
    from hetpart.report.findings.text import summary

    text = (STATISTICS if asked.statistics else FORMATS)[asked.form](found)
    _summarise(asked, found)
    if asked.output in (None, _STDOUT):
        click.echo(text, nl=False)
        return
    write_whole(asked.output, text.encode())
    click.echo(f"{summary(found) if found else 'No findings.'} Written to {printable(str(asked.output))}")


def _summarise(asked: LintOptions, found: Sequence[Finding]) -> None:
    """Add the findings to the page of a step of GitHub's, where one is running and is told of them."""
    page = os.environ.get(SUMMARY_VARIABLE)
    if page and asked.form in _FOR_GITHUB:
        from hetpart.report.findings.markdown import as_markdown

        with Path(page).open("a", encoding="utf-8") as file:
            file.write(as_markdown(found) + "\n")


def _fails(asked: LintOptions, found: Sequence[Finding]) -> bool:
    from hetpart.plan.findings import Severity

    least = Severity(asked.fail_on)
    return not asked.exit_zero and any(finding.severity.reaches(least) for finding in found)


@click.command()
@click.argument("name", required=False)
def rule(name: str | None) -> None:
    """List the rules of `hetpart lint`, or explain the rule NAME, a code or a name."""
    from hetpart.linter.rule import all_rules
    from hetpart.linter.select import Selection

    rules = all_rules()
    if name is None:
        for known in rules:
            off = "" if known.default else " (not by default)"
            click.echo(f"{known.code}  {known.severity:7}  {known.name}{off}")
            click.echo(f"    {known.summary}")
        return
    texts = (_explained(known) for known in Selection(select=(name,)).of(rules))
    click.echo("\n\n".join(texts))


def _explained(known: Rule) -> str:
    return f"# {known.name} ({known.code})\n\n{known.documentation}\n\nSeverity: {known.severity}."
