"""Options of every command that prices a model, and of those that place it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from hetpart.cli.guard import import_option, threads_option

Command = Callable[..., Any]

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
weights_option = click.option(
    "--weights",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Safetensors files that hold the weights of a .pt2 model: their folder, or one.",
)
budget_option = click.option(
    "--budget", multiple=True, metavar="SIZE", help="16GB, 12GiB, 80%, auto, 0 or cuda:0=16GB. Repeatable."
)

_REQUEST: Mapping[str, Callable[..., Any]] = {
    "shape": shape_option,
    "pin": click.option(
        "--pin", multiple=True, metavar="GLOB=DEVICE", help="Keep ops on a device: op:Gather=cpu. Repeatable."
    ),
    "colocate": click.option(
        "--colocate", multiple=True, metavar="GLOB[,GLOB]", help="Keep ops on one device, whichever. Repeatable."
    ),
    "host_budget": click.option("--host-budget", metavar="SIZE", help="Memory of the host that may be used."),
    "headroom": click.option("--headroom", metavar="SIZE", help="What stays free of the budget: 1GB or 10%."),
    "max_partitions": click.option(
        "--max-partitions", type=click.IntRange(1), metavar="N", help="Cut the model into N pieces at most."
    ),
    "min_gain": click.option("--min-gain", metavar="GAIN", help="What one more cut must save at least: 5% or 1ms."),
    "io": click.option(
        "--io", multiple=True, metavar="NAME=DEVICE", help="Where an input is given, an output handed over. Repeatable."
    ),
    "state": click.option(
        "--state",
        multiple=True,
        metavar="IN=OUT",
        help="An input and its new value share a device; auto finds such pairs.",
    ),
    "stream": click.option(
        "--stream/--no-stream", default=None, help="Copy weights in every run; by default where that seems to pay."
    ),
    "time_limit": click.option(
        "--time-limit",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="Longest search for a placement; of a sweep, for every budget.",
    ),
    "threads": threads_option,
    "trip_count": trip_count_option,
    "access": access_option,
    "weights": weights_option,
}
"""By keyword, in the order that the help lists them."""


def request_options(command: Command) -> Command:
    """``command`` with every option that says what a plan must keep to."""
    for option in reversed(tuple(_REQUEST.values())):
        command = option(command)
    return import_option(command)


def taken_request(given: dict[str, Any]) -> dict[str, Any]:
    """Take those options out of ``given``, as the keywords of ``hetpart.partition``; what was not given is left out."""
    taken = {name: given.pop(name) for name in _REQUEST}
    return {name: value for name, value in taken.items() if value is not None and value != ()}
