"""``hetpart calibrate``: measure this machine, so that plans are made with its own figures."""

from __future__ import annotations

import click

from hetpart.cli.guard import json_option
from hetpart.report.escape import printable
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free


@click.command()
@json_option
def calibrate(*, as_json: bool) -> None:
    """Measure this machine's processor in about a minute; plans use the figures from then on."""
    with stdout_kept_free(wanted=as_json), StageBar() as progress:
        from hetpart.calibration.measure import calibrate as measure
        from hetpart.cost_model.calibrated import save
        from hetpart.report.calibration_text import calibration_content, calibration_parts

        found = measure(progress)
        path = save(found)
    if as_json:
        print_json("calibrate", {"file": str(path), **calibration_content(found)})
    else:
        show(calibration_parts(found))
        click.echo(f"\nWritten to {printable(str(path))}")
