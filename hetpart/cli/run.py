"""``hetpart run``: run a bundle, measure it and check its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetpart.cli.guard import end_with, import_option, json_option, threads_option, verify_option
from hetpart.errors import MismatchError
from hetpart.terminal import StageBar, log_to_stderr, print_json, show, stdout_kept_free

if TYPE_CHECKING:
    from hetpart.plan.run import CheckResult, RunReport


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``hetpart run``."""

    bundle: Path
    random: bool
    seed: int
    inputs: tuple[str, ...]
    repeat: int
    check: bool
    exact: bool
    emulate: bool
    emulate_link: str | None
    overlap: bool | None
    native: bool
    provider: tuple[str, ...]
    cuda_graph: bool
    trace: Path | None
    verbosity: int
    output: Path | None
    verify: str
    threads: int
    as_json: bool

    def work(self) -> dict[str, Any]:
        """The keywords of ``hetpart.runtime.check.run``."""
        from hetpart.runtime.arrays import read_inputs

        return {
            "emulate": self.emulate,
            "emulate_link": self.emulate_link,
            "overlap": self.overlap,
            "provider": self.provider,
            "cuda_graph": self.cuda_graph,
            "trace": self.trace,
            "verbosity": self.verbosity,
            "mode": "native" if self.native else "partitions",
            "feeds": read_inputs(self.inputs),
            "random_seed": self.seed if self.random else None,
            "repeat": self.repeat,
            "check": self.check or self.exact,
            "exact": self.exact,
            "output": self.output,
            "verify": self.verify,
            "threads": self.threads or None,
        }


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--random", is_flag=True, help="Seeded random values for every input that --input does not give.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of --random, 0 by default.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="An input from an .npy file, or FILE.safetensors alone: all that it holds. Repeatable.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, metavar="N", help="Runs to measure, 1 by default.")
@click.option("--check", is_flag=True, help="Compare with the uncut model: in one session, or in PyTorch.")
@click.option("--exact", is_flag=True, help="Compare bit for bit, with ONNX Runtime's optimisations off.")
@click.option("--emulate", is_flag=True, help="Run accelerator partitions on the CPU.")
@click.option("--emulate-link", metavar="RATE", help="Copies to emulated accelerators go no faster, such as 12GB/s.")
@click.option(
    "--overlap/--no-overlap",
    default=None,
    help="Lanes work at the same time, or never; by default where the plan's figures promise a gain.",
)
@click.option("--native", is_flag=True, help="Leave it to one ONNX Runtime session to place nodes as planned.")
@click.option("--provider", multiple=True, metavar="DEVICE=NAME", help="cuda:0=TensorrtExecutionProvider. Repeatable.")
@click.option("--cuda-graph", is_flag=True, help="Capture partitions on CUDA that can be.")
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Write the last run, for Perfetto.")
@click.option("-v", "verbosity", count=True, help="Log what partitions and kernels of the host cost; -vv all kernels.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the results there as .npy files; bfloat16 and float8 as float32.",
)
@import_option
@threads_option
@verify_option
@json_option
def run(**given: Any) -> None:
    """Run BUNDLE and measure it beside its prediction."""
    asked = RunOptions(**given)
    log_to_stderr(asked.verbosity)
    with stdout_kept_free(wanted=asked.as_json), StageBar() as progress:
        from hetpart.runtime import check

        measured = check.run(asked.bundle, **asked.work(), progress=progress)
    if asked.as_json:
        _print_run(measured)
    else:
        _show_run(measured)
    if measured.check is not None and not measured.check.equal:
        end_with(_mismatch(measured.check))


def _print_run(measured: RunReport) -> None:
    from hetpart.report.json import to_json

    print_json("run", to_json(measured))


def _show_run(measured: RunReport) -> None:
    from hetpart.report.run_text import run_parts

    show(run_parts(measured))


def _mismatch(check: CheckResult) -> MismatchError:
    how = "bit for bit" if check.exact else f"within {check.tolerance:g}"
    largest = f"{check.worst_output!r} differs by {check.largest_difference:g}"
    return MismatchError(
        f"the results are not those of the uncut model {how}: {largest}",
        hint="" if check.exact else "see with --exact whether the cut or a fusion that the cut prevents is the cause",
    )
