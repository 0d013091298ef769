"""``hetpart bench``: our plan, and what else could be done, measured in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hetpart.cli.guard import json_option
from hetpart.cli.model_options import budget_option, hardware_option, request_options, taken_request
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@budget_option
@hardware_option
@request_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="An input from an .npy file, or FILE.safetensors alone: all that it holds; the rest is random. Repeatable.",
)
@click.option("--emulate", is_flag=True, help="Run accelerator partitions on the CPU.")
@click.option("--repeat", "rounds", type=click.IntRange(1), default=20, metavar="N", help="Runs of each, 20.")
@click.option("--autotune", type=click.IntRange(0), default=0, metavar="N", help="Measure the N best plans instead.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the bundle of the fastest plan.")
@json_option
def bench(model: Path, *, as_json: bool, budget: tuple[str, ...], inputs: tuple[str, ...], **given: Any) -> None:
    """Measure MODEL, an ONNX file, as placed by hetpart and by simpler rules."""
    request = taken_request(given)
    with stdout_kept_free(wanted=as_json), StageBar() as progress:
        from hetpart.runtime.arrays import read_inputs
        from hetpart.whatif.bench import bench as measured

        feeds = read_inputs(inputs)
        found = measured(model, budget=budget or None, feeds=feeds, **request, **given, progress=progress)
    if as_json:
        from hetpart.report.json import to_json

        print_json("bench", to_json(found))
        return
    from hetpart.report.bench_text import bench_parts

    show(bench_parts(found))
