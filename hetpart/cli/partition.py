"""``hetpart partition``: place the ops of a model and write a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.cli.guard import json_option, verify_option
from hetpart.cli.model_options import budget_option, hardware_option, request_options, taken_request
from hetpart.cli.plans import html_option, print_plan, project_rules, require_page, say_written, show_plan
from hetpart.errors import MissingContentError
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, stdout_kept_free

if TYPE_CHECKING:
    from hetpart.partitioned import PartitionedModel


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """The options of ``hetpart partition``."""

    model: Path
    output: Path | None
    html: Path | None
    budget: tuple[str, ...]
    hardware: str | None
    request: dict[str, Any]
    placement: str
    overlap: bool
    verify: str
    self_contained: bool
    quiet: bool
    as_json: bool

    def search(self) -> dict[str, Any]:
        """The keywords of ``hetpart.partition``."""
        return self.request | {
            "budget": self.budget or None,
            "hardware": self.hardware,
            "placement": self.placement,
            "overlap": self.overlap,
            "verify": self.verify,
        }


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The bundle to write, MODEL.hetpart by default.")
@html_option
@budget_option
@hardware_option
@click.option(
    "--placement",
    default="optimal",
    metavar="SOURCE",
    help="optimal, random:SEED, all-cpu, all-accelerator, fill-in-order, accelerate-order, density, earliest-finish "
    "or a file.",
)
@request_options
@click.option("--overlap", is_flag=True, help="Cut for devices and copies that work at the same time.")
@click.option("--self-contained", is_flag=True, help="Copy the weights into the bundle.")
@verify_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@json_option
def partition(**given: Any) -> None:
    """Place the ops of MODEL, an .onnx or .pt2 file, under a budget and write a bundle."""
    asked = PartitionOptions(request=taken_request(given), **given)
    require_page(asked.html)
    with stdout_kept_free(wanted=asked.as_json), StageBar(wanted=not asked.quiet) as progress:
        from hetpart import compiler

        model = compiler.partition(asked.model, **asked.search(), progress=progress)
        progress("writing the bundle")
        bundle = _saved(asked, model)
        _write_page(asked, model)
    if not (asked.as_json or asked.quiet):
        show_plan(model.plan)
    if asked.as_json:
        print_plan("partition", None if isinstance(bundle, MissingContentError) else bundle, model.plan)
    elif not asked.quiet:
        click.echo(f"\n{_told(bundle)}")
        say_written(asked.html)


def _saved(asked: PartitionOptions, model: PartitionedModel) -> Path | MissingContentError:
    """The bundle's path, or why there is none, as of a program on the meta device: its plan is shown all the same.

    Raises:
        MissingContentError: there is none, and what was asked for is a bundle rather than what is shown.
    """
    try:
        return model.save(asked.output or f"{asked.model.stem}.hetpart", self_contained=asked.self_contained)
    except MissingContentError as error:
        if asked.output is not None or asked.self_contained or asked.quiet:
            raise
        return error


def _told(bundle: Path | MissingContentError) -> str:
    if isinstance(bundle, Path):
        return f"Written to {printable(str(bundle))}"
    return (
        f"No bundle is written, this is the plan alone: {printable(bundle.message)}\n  hint: {printable(bundle.hint)}"
    )


def _write_page(asked: PartitionOptions, model: PartitionedModel) -> None:
    if asked.html is None:
        return
    from hetpart.report.page import write_page
    from hetpart.whatif.evidence import evidence_of_model

    write_page(evidence_of_model(model, asked.hardware, project_rules()), asked.html)
