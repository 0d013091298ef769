"""``hetpart partition``: place the ops of a model and write a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hetpart.cli.guard import json_option, threads_option, verify_option
from hetpart.cli.model_options import access_option, hardware_option, shape_option, trip_count_option
from hetpart.cli.plans import print_plan, show_plan
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, stdout_kept_free


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """The options of ``hetpart partition``."""

    model: Path
    output: Path | None
    budget: tuple[str, ...]
    hardware: str | None
    shape: tuple[str, ...]
    pin: tuple[str, ...]
    placement: str
    time_limit: float | None
    threads: int
    trip_count: tuple[str, ...]
    access: Path | None
    verify: str
    self_contained: bool
    quiet: bool
    as_json: bool

    def search(self) -> dict[str, Any]:
        """The keywords of ``hetpart.partition``."""
        limit = {} if self.time_limit is None else {"time_limit": self.time_limit}
        return limit | {
            "budget": self.budget or None,
            "hardware": self.hardware,
            "shape": self.shape or None,
            "pin": self.pin,
            "placement": self.placement,
            "threads": self.threads,
            "trip_count": self.trip_count,
            "access": self.access,
            "verify": self.verify,
        }


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The bundle to write, MODEL.hetpart by default.")
@click.option("--budget", multiple=True, metavar="SIZE", help="16GB, 12GiB, 80%, auto, 0 or cuda:0=16GB. Repeatable.")
@hardware_option
@shape_option
@click.option("--pin", multiple=True, metavar="GLOB=DEVICE", help="Keep ops on a device: op:Gather=cpu. Repeatable.")
@click.option(
    "--placement",
    default="optimal",
    metavar="SOURCE",
    help="optimal, random:SEED, all-cpu, all-accelerator, fill-in-order, accelerate-order, density or a file.",
)
@click.option("--time-limit", type=click.FloatRange(0), metavar="SECONDS", help="Longest search for a placement.")
@threads_option
@trip_count_option
@access_option
@click.option("--self-contained", is_flag=True, help="Copy the weights into the bundle.")
@verify_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@json_option
def partition(**given: Any) -> None:
    """Place the ops of MODEL, an ONNX file, under a budget and write a bundle."""
    asked = PartitionOptions(**given)
    with stdout_kept_free(wanted=asked.as_json), StageBar(wanted=not asked.quiet) as progress:
        from hetpart import compiler

        model = compiler.partition(asked.model, **asked.search(), progress=progress)
        progress("writing the bundle")
        bundle = model.save(asked.output or f"{asked.model.stem}.hetpart", self_contained=asked.self_contained)
    if asked.as_json:
        print_plan("partition", bundle, model.plan)
    elif not asked.quiet:
        show_plan(model.plan)
        click.echo(f"\nWritten to {printable(str(bundle))}")
