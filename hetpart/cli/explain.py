"""``hetpart explain``: why an op is where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hetpart.cli.guard import json_option
from hetpart.cli.model_options import budget_option, hardware_option, request_options, taken_request
from hetpart.terminal import StageBar, print_json, show, stdout_kept_free


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("node")
@budget_option
@hardware_option
@request_options
@json_option
def explain(model: Path, node: str, *, as_json: bool, **given: Any) -> None:
    """Say why the op NODE of MODEL is where it is, and what it costs elsewhere.

    NODE is the name of an op or of a value it makes, or a pattern that matches one op.
    """
    with stdout_kept_free(wanted=as_json), StageBar() as progress:
        from hetpart.whatif.explain import explain as explained

        request = taken_request(given)
        found = explained(model, node, **{**given, "budget": given["budget"] or None}, **request, progress=progress)
    if as_json:
        from hetpart.report.json import to_json

        print_json("explain", to_json(found.explanation))
        return
    from hetpart.report.explain_text import explanation_parts

    show(explanation_parts(found.explanation))
