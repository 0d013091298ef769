"""What every command shares: its errors, and the options that mean the same everywhere."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.garbage import cycles_sought_rarely
from hetpart.terminal import (
    FAILED_EXIT,
    INTERRUPTED_EXIT,
    TRACEBACK_VARIABLE,
    as_error,
    describe_error,
    print_error,
    print_interrupted,
    print_json,
)

_JSON_FLAG = "--json"

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
threads_option = click.option(
    "--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads on the host; 0 leaves it to the machine."
)
verify_option = click.option(
    "--verify", type=click.Choice(["sampled", "full"]), default="sampled", help="How much of a weight file is hashed."
)


def _import_modules(ctx: click.Context, option: click.Parameter, names: tuple[str, ...]) -> None:
    """Import what registers operators, from the current folder too, before anything is loaded.

    Raises:
        InvalidOptionError: one cannot be imported.
    """
    del ctx, option
    if names and (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    for name in names:
        try:
            import_module(name)
        except Exception as problem:  # what a module does when it is imported is its own
            raise InvalidOptionError(
                f"--import {name!r} failed: {type(problem).__name__}: {problem}",
                hint="give a module as `import` in Python takes it, installed or in the current folder: my_ops",
            ) from problem


import_option = click.option(
    "--import",
    multiple=True,
    metavar="MODULE",
    is_eager=True,
    expose_value=False,
    callback=_import_modules,
    help="Import a module first, such as one that registers PyTorch operators. Repeatable.",
)


class Commands(click.Group):
    """A group whose commands never end in a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; where even its help cannot be printed, say why."""
        try:
            with cycles_sought_rarely():
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
        except KeyboardInterrupt as pressed:
            print_interrupted(pressed)
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


def end_with(error: HetpartError) -> NoReturn:
    """Print ``error`` and leave with its exit code."""
    print_error(error)
    click.get_current_context().exit(error.exit_code)
