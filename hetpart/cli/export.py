"""``hetpart export``: a plan for other programs to show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetpart.cli.guard import json_option
from hetpart.report.escape import printable
from hetpart.terminal import print_json

if TYPE_CHECKING:
    from hetpart.report.exports.exported import Exported

_FORMATS = ("csv", "graphviz", "graphviz-ops", "json", "model-explorer", "netron", "perfetto")
_STDOUT = Path("-")


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(_FORMATS), required=True, help="Which program is to show it.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PATH",
    help="The file, - for standard output; of model-explorer the folder.",
)  # fmt: skip
@json_option
def export(bundle: Path, form: str, output: Path, *, as_json: bool) -> None:
    """Write the plan of BUNDLE for another program to show.

    The model that `hetpart emit` annotates opens in Netron, too; `hetpart run --trace` writes a measured run.
    """
    from hetpart.report.exports.formats import FILES, FOLDERS

    exported = _exported(bundle)
    if output == _STDOUT:
        _print(exported, form, as_json=as_json)
        return
    if form in FILES:
        written = _write({output: FILES[form](exported)})
    else:
        files = FOLDERS[form](exported)
        output.mkdir(parents=True, exist_ok=True)
        written = _write({output / name: text for name, text in files.items()})
    if as_json:
        print_json("export", {"format": form, "files": [str(path) for path in written]})
    else:
        click.echo("\n".join(f"wrote {printable(str(path))}" for path in written))


def _exported(bundle: Path) -> Exported:
    from hetpart.plan.bundle import partition_models
    from hetpart.plan.edges import op_graph
    from hetpart.plan.io import load_plan
    from hetpart.report.exports.exported import Exported

    plan = load_plan(bundle)
    return Exported(plan, op_graph(partition_models(bundle, plan)) if bundle.is_dir() else None)


def _print(exported: Exported, form: str, *, as_json: bool) -> None:
    from hetpart.report.exports.formats import FILES

    if as_json:
        raise click.UsageError("--json and -o - cannot both print to standard output")
    if form not in FILES:
        raise click.UsageError(f"{form} is several files: name a folder with -o")
    click.echo(FILES[form](exported), nl=False)


def _write(texts: dict[Path, str]) -> list[Path]:
    from hetpart.files import write_whole

    for path, text in texts.items():
        write_whole(path, text.encode())
    return list(texts)
