"""``hetpart calibrate``: measure this machine, so that plans are made with its own figures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetpart.cli.guard import json_option
from hetpart.errors import InvalidOptionError
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from hetpart.calibration.from_profile import Refit


@click.command()
@click.option(
    "--from-profile",
    "profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Measure nothing: refit the calibration to the JSON profile that ONNX Runtime wrote of a run.",
)
@click.option(
    "--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads of the profiled run; 0: as it tells."
)
@click.option(
    "--refine", is_flag=True, help="Keep the best of what earlier calibrations measured and what this one does."
)
@json_option
def calibrate(profile: Path | None, threads: int, *, refine: bool, as_json: bool) -> None:
    """Measure this machine in under a minute; plans use the figures from then on."""
    if profile is not None and refine:
        raise InvalidOptionError(
            "--refine measures again and --from-profile measures nothing", hint="ask for one after the other"
        )
    if profile is not None:
        _refit(profile, threads, as_json=as_json)
        return
    if threads:
        raise InvalidOptionError(
            "--threads says what run --from-profile is of, and there is none",
            hint="leave it out: `hetpart calibrate` measures one thread and all cores",
        )
    _measure(refine=refine, as_json=as_json)


def _measure(*, refine: bool, as_json: bool) -> None:
    with stdout_kept_free(wanted=as_json), StageBar() as progress:
        from hetpart.calibration.measure import sample
        from hetpart.calibration.samples import load_samples, save_samples
        from hetpart.cost_model.calibrated import require_writable, save
        from hetpart.report.calibration_text import calibration_content, calibration_parts

        require_writable()
        earlier = load_samples() if refine else None
        sampled = sample(progress) if earlier is None else sample(progress).refining(earlier)
        found = sampled.calibration()
        save_samples(sampled)
        path = save(found)
    if as_json:
        print_json("calibrate", {"file": str(path), **calibration_content(found)})
    else:
        show(calibration_parts(found))
        click.echo(f"\nWritten to {printable(str(path))}")


def _refit(profile: Path, threads: int, *, as_json: bool) -> None:
    with stdout_kept_free(wanted=as_json):
        from hetpart.calibration.from_profile import refit_from
        from hetpart.cost_model.calibrated import save

        found = refit_from(profile, threads)
        path = save(found.calibration)
    if as_json:
        fits = [asdict(fit) for fit in found.families]
        content = {"threads": found.threads, "families": fits, "left_out": found.left_out}
        print_json("calibrate", {"file": str(path), "profile": str(profile), **content})
    else:
        show(_refit_parts(found))
        click.echo(f"\nWritten to {printable(str(path))}")


def _refit_parts(found: Refit) -> Iterator[RenderableType]:
    from hetpart.report.layout import heading, line, table
    from hetpart.units import format_count, format_seconds

    yield heading(f"Kernels of a run with {format_count(found.threads, 'thread')}")
    rows = [
        (f.family, str(f.kernels), format_seconds(f.seconds), f"× {f.factor:.3g}", f"{f.points} of {f.all_points}")
        for f in found.families
    ]
    yield table(("family", ">kernels", ">predicted", ">they took", ">sizes refitted"), rows)
    yield line("they took: to predicted, the median by time; sizes near those of kernels got that of their own.")
    if found.left_out:
        yield line(
            f"{format_count(found.left_out, 'kernel')} told nothing: below 10 µs, of no family, or not for sure."
        )
