"""Options of every command that prices a model."""

from __future__ import annotations

from pathlib import Path

import click

hardware_option = click.option(
    "--hardware", metavar="NAME", help="ACCELERATOR[+CPU[+LINK]] such as h100+epyc, or a TOML file."
)
shape_option = click.option(
    "--shape", multiple=True, metavar="DIM=N", help="Bind symbolic dimensions: batch=8,seq=128. Repeatable."
)
trip_count_option = click.option(
    "--trip-count", multiple=True, metavar="GLOB=N", help="How often a Loop, Scan or SequenceMap runs. Repeatable."
)
access_option = click.option(
    "--access",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='JSON of how likely a run touches a weight or an expert: {"experts.3.*": 0.25}.',
)
