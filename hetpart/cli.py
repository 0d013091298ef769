"""The command line: wiring and exit codes. 0 is well, 1 does not fit or differs, 2 is bad input, 130 is interrupted."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hetpart import __version__
from hetpart.errors import HetpartError, MismatchError
from hetpart.report.escape import printable
from hetpart.terminal import (
    FAILED_EXIT,
    INTERRUPTED_EXIT,
    TRACEBACK_VARIABLE,
    StageBar,
    as_error,
    describe_error,
    print_error,
    print_json,
    show,
    stdout_kept_free,
)

if TYPE_CHECKING:
    from hetpart.plan.model import Plan
    from hetpart.plan.run import CheckResult, RunReport

_JSON_FLAG = "--json"


class Commands(click.Group):
    """A group whose commands never end in a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; where even its help cannot be printed, say why."""
        try:
            return super().main(*args, **extra)
        except OSError as problem:
            print_error(as_error(problem))
            sys.exit(FAILED_EXIT)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether JSON is wanted before a command's own options are understood."""
        ctx.ensure_object(dict)[_JSON_FLAG] = _JSON_FLAG in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever it raises becomes a message and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except click.ClickException as error:
            if ctx.obj[_JSON_FLAG]:
                print_json("error", {"error": describe_error(_usage_error(error))})
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED_EXIT)
        except Exception as error:  # noqa: BLE001 - the last line of defence: users see no traceback
            _fail(ctx, error)


def _usage_error(error: click.ClickException) -> HetpartError:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return HetpartError(error.format_message(), hint=f"see {ctx.command_path} --help" if ctx else "see hetpart --help")


def _fail(ctx: click.Context, problem: Exception) -> NoReturn:
    error = as_error(problem)
    if os.environ.get(TRACEBACK_VARIABLE):
        import traceback

        traceback.print_exception(problem)
    print_error(error)
    if ctx.obj[_JSON_FLAG]:
        with suppress(OSError):  # standard output itself may be what failed
            print_json("error", {"error": describe_error(error)})
    ctx.exit(error.exit_code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hetpart")
def main() -> None:
    """Place every operator of a model on CPU or CUDA under a memory budget, and run the pieces."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
threads_option = click.option(
    "--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads on the host; 0 leaves it to the machine."
)
verify_option = click.option(
    "--verify", type=click.Choice(["sampled", "full"]), default="sampled", help="How much of a weight file is hashed."
)


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """The options of ``hetpart partition``."""

    model: Path
    output: Path | None
    budget: tuple[str, ...]
    hardware: str | None
    shape: tuple[str, ...]
    pin: tuple[str, ...]
    placement: str
    time_limit: float | None
    threads: int
    verify: str
    self_contained: bool
    quiet: bool
    as_json: bool

    def search(self) -> dict[str, Any]:
        """The keywords of ``hetpart.partition``."""
        limit = {} if self.time_limit is None else {"time_limit": self.time_limit}
        return limit | {
            "budget": self.budget or None,
            "hardware": self.hardware,
            "shape": self.shape or None,
            "pin": self.pin,
            "placement": self.placement,
            "threads": self.threads,
            "verify": self.verify,
        }


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The bundle to write, MODEL.hetpart by default.")
@click.option("--budget", multiple=True, metavar="SIZE", help="16GB, 12GiB, 80%, auto, 0 or cuda:0=16GB. Repeatable.")
@click.option("--hardware", metavar="NAME", help="ACCELERATOR[+CPU[+LINK]] such as h100+epyc, or a TOML file.")
@click.option("--shape", multiple=True, metavar="DIM=N", help="Bind symbolic dimensions: batch=8,seq=128. Repeatable.")
@click.option("--pin", multiple=True, metavar="GLOB=DEVICE", help="Keep ops on a device: op:Gather=cpu. Repeatable.")
@click.option(
    "--placement",
    default="optimal",
    metavar="SOURCE",
    help="optimal, random:SEED, all-cpu, all-accelerator, fill-in-order or a file.",
)
@click.option("--time-limit", type=click.FloatRange(0), metavar="SECONDS", help="Longest search for a placement.")
@threads_option
@click.option("--self-contained", is_flag=True, help="Copy the weights into the bundle.")
@verify_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@json_option
def partition(**given: Any) -> None:
    """Place the ops of MODEL, an ONNX file, under a budget and write a bundle."""
    asked = PartitionOptions(**given)
    with stdout_kept_free(wanted=asked.as_json), StageBar(wanted=not asked.quiet) as progress:
        from hetpart import compiler

        model = compiler.partition(asked.model, **asked.search(), progress=progress)
        progress("writing the bundle")
        bundle = model.save(asked.output or f"{asked.model.stem}.hetpart", self_contained=asked.self_contained)
    if asked.as_json:
        _print_plan("partition", bundle, model.plan)
    elif not asked.quiet:
        _show_plan(model.plan)
        click.echo(f"\nWritten to {printable(str(bundle))}")


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
    output: Path | None
    verify: str
    threads: int
    as_json: bool

    def work(self) -> dict[str, Any]:
        """The keywords of ``hetpart.runtime.check.run``."""
        from hetpart.runtime.arrays import read_inputs

        return {
            "emulate": self.emulate,
            "feeds": read_inputs(self.inputs),
            "random_seed": self.seed if self.random else None,
            "repeat": self.repeat,
            "check": self.check or self.exact,
            "exact": self.exact,
            "output": self.output,
            "verify_full": self.verify == "full",
            "threads": self.threads,
        }


@main.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--random", is_flag=True, help="Seeded random values for every input that --input does not give.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of --random, 0 by default.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE", help="An input from an .npy file. Repeatable.")
@click.option("--repeat", type=click.IntRange(1), default=1, metavar="N", help="Runs to measure, 1 by default.")
@click.option("--check", is_flag=True, help="Compare with the uncut model in one session.")
@click.option("--exact", is_flag=True, help="Compare bit for bit, with ONNX Runtime's optimisations off.")
@click.option("--emulate", is_flag=True, help="Run accelerator partitions on the CPU.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write the results there as .npy files.")
@threads_option
@verify_option
@json_option
def run(**given: Any) -> None:
    """Run BUNDLE and measure it beside its prediction."""
    asked = RunOptions(**given)
    with stdout_kept_free(wanted=asked.as_json), StageBar() as progress:
        from hetpart.runtime import check

        measured = check.run(asked.bundle, **asked.work(), progress=progress)
    if asked.as_json:
        _print_run(measured)
    else:
        _show_run(measured)
    if measured.check is not None and not measured.check.equal:
        _end_with(_mismatch(measured.check))


@main.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def report(bundle: Path, *, as_json: bool) -> None:
    """Print what the plan of BUNDLE predicts."""
    from hetpart.plan.io import load_plan

    plan = load_plan(bundle)
    if as_json:
        _print_plan("report", bundle, plan)
    else:
        _show_plan(plan)


@main.command()
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


def _print_plan(command: str, bundle: Path, plan: Plan) -> None:
    from hetpart.report.json import plan_content

    print_json(command, {"bundle": str(bundle), **plan_content(plan)})


def _print_run(measured: RunReport) -> None:
    from hetpart.report.json import to_json

    print_json("run", to_json(measured))


def _show_plan(plan: Plan) -> None:
    from hetpart.report.text import plan_parts

    show(plan_parts(plan))


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


def _end_with(error: HetpartError) -> NoReturn:
    print_error(error)
    click.get_current_context().exit(error.exit_code)
