"""``hetpart emit``: a plan for others to run."""

from __future__ import annotations

from pathlib import Path

import click

from hetpart.cli.guard import json_option
from hetpart.terminal import StageBar, print_json

_FORMATS = ("ort-annotated", "stages")


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default=_FORMATS[0], help="One annotated model, or its partitions."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PATH", help="The model, or the folder."
)
@click.option("--self-contained", is_flag=True, help="Copy the weights beside the annotated model. Stages have theirs.")
@json_option
def emit(bundle: Path, form: str, output: Path, *, self_contained: bool, as_json: bool) -> None:
    """Write the plan of BUNDLE for ONNX Runtime alone to run, or for another server."""
    with StageBar() as say:
        say("reading the bundle")
        from hetpart.plan.bundle import open_bundle
        from hetpart.plan.emit import emit_annotated, emit_stages

        opened = open_bundle(bundle)
        say("writing")
        if form == "stages":
            written = emit_stages(opened, output)
        else:
            written = emit_annotated(opened, output, self_contained=self_contained)
    if as_json:
        print_json("emit", {"format": form, "files": [str(path) for path in written]})
    else:
        click.echo("\n".join(f"wrote {path}" for path in written))
