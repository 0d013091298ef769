"""``hetpart hardware``: the profiles that ``--hardware`` knows."""

from __future__ import annotations

import click

from hetpart.cli.guard import json_option
from hetpart.terminal import print_json, show


@click.command()
@click.argument("name", required=False)
@json_option
def hardware(name: str | None, *, as_json: bool) -> None:
    """List the hardware profiles, or show the figures of NAME with their sources."""
    from hetpart.report.hardware_text import describe_hardware

    described = describe_hardware(name)
    if as_json:
        print_json("hardware", described.content)
    else:
        show(described.parts)
