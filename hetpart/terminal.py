"""What the command line writes: JSON alone on standard output, errors and progress on standard error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stdout
from shutil import get_terminal_size
from threading import Lock, Timer
from typing import TYPE_CHECKING

import click

from hetpart.errors import HetpartError, InfeasibleError
from hetpart.report.escape import json_text, printable

if TYPE_CHECKING:
    from logging import LogRecord

    from rich.console import RenderableType
    from rich.progress import Progress

TRACEBACK_VARIABLE = "HETPART_TRACEBACK"
INTERRUPTED_EXIT = 130
FAILED_EXIT = 2
_SYSTEM_HINTS = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EACCES: "choose a place that you may read and write",
    errno.ENOENT: "check the spelling of the path",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EROFS: "choose a place that can be written",
}
_PATIENCE_SECONDS = 1.0
_WIDEST = 140
_STDOUT, _STDERR = 1, 2
_GLOG_LINE = "%(levelname).1s%(asctime)s.%(msecs)03d %(process)d %(filename)s:%(lineno)d] %(message)s"
_GLOG_TIME = "%m%d %H:%M:%S"


def print_json(command: str, content: dict[str, object]) -> None:
    """Print the one JSON object of ``command`` to standard output, in ASCII, so that no terminal obeys a name in it."""
    click.echo(json_text({"schema": f"hetpart.{command}", "version": 1, **content}))


def show(parts: Iterable[RenderableType]) -> None:
    """Print the parts of a report: with colours on a terminal, as plain text elsewhere."""
    from rich.console import Console

    from hetpart.report.layout import DEFAULT_WIDTH, LEAST_WIDTH, plain, print_parts

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # a standard output of few characters shows the others as \\u2192
        reconfigure(errors="backslashreplace")
    if getattr(sys.stdout, "isatty", bool)():  # there is none where it was closed
        print_parts(parts, Console(width=max(LEAST_WIDTH, min(_WIDEST, get_terminal_size().columns))))
    else:
        click.echo(plain(parts, get_terminal_size((DEFAULT_WIDTH, 0)).columns), nl=False)


@contextmanager
def stdout_kept_free(*, wanted: bool) -> Generator[None]:
    """Whatever is printed inside goes to standard error, native libraries' lines too, so that JSON may stand alone."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr), _descriptor_redirected():
        yield


@contextmanager
def _descriptor_redirected() -> Generator[None]:
    try:
        saved = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
    except OSError:  # a descriptor is closed: nothing can be printed to it either
        yield
        return
    try:
        yield
    finally:
        _flush_native()
        os.dup2(saved, _STDOUT)
        os.close(saved)


def _flush_native() -> None:
    """Empty C's own buffers while they still lead to standard error."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def log_to_stderr(verbosity: int) -> None:
    """Lines of ``hetpart``'s loggers on standard error, as glog writes them: INFO from 1 on, DEBUG from 2 on."""
    if not verbosity:
        return
    import logging

    logger = logging.getLogger("hetpart")
    logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_GLOG_LINE, _GLOG_TIME))
    handler.addFilter(_printable_record)
    logger.handlers[:] = [handler]


def _printable_record(record: LogRecord) -> bool:
    """Names in a line are escaped: no terminal obeys them."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


def describe_error(error: HetpartError) -> dict[str, object]:
    """The error as the ``error`` member of the JSON object."""
    described: dict[str, object] = {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
    }
    if isinstance(error, InfeasibleError):
        described["required_bytes"] = error.required_bytes
    return described


def print_error(error: HetpartError) -> None:
    """``error: …`` and ``hint: …`` on standard error, with every name escaped."""
    _print_labelled("error", "red", error.message)
    if error.hint:
        _print_labelled("hint", "cyan", error.hint)


def print_interrupted(pressed: KeyboardInterrupt) -> None:
    """``interrupted`` on standard error, and what was under way."""
    for line in ("interrupted", *getattr(pressed, "__notes__", ())):
        click.echo(printable(line), err=True)


def _print_labelled(label: str, colour: str, text: str) -> None:
    click.echo(f"{click.style(f'{label}:', fg=colour, bold=True)} {printable(text, keep=chr(10))}", err=True)


def as_error(problem: BaseException) -> HetpartError:
    """Any problem as one that can be printed: what the user can mend as such, the rest as an internal error."""
    match problem:
        case HetpartError():
            return problem
        case OSError():
            return HetpartError(_system_message(problem), hint=_SYSTEM_HINTS.get(problem.errno or 0, ""))
        case UnicodeEncodeError():
            return HetpartError(f"the name {problem.object!r} is not valid UTF-8", hint="rename the file or the folder")
        case MemoryError():
            return HetpartError("this machine's memory is used up", hint="close what else runs, or use a smaller model")
        case _:
            return HetpartError(
                f"internal error: {type(problem).__name__}: {problem}",
                hint=f"this is a fault of hetpart: please report it with the output under {TRACEBACK_VARIABLE}=1",
            )


def _system_message(problem: OSError) -> str:
    reason = problem.strerror or str(problem)
    return f"{reason}: {problem.filename}" if problem.filename else reason


class StageBar:
    """Shows the stage of work that takes over a second, on a terminal only. Call it with the name of each stage."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._stage = ""
        self._bar: Progress | None = None
        self._lock = Lock()
        self._timer = Timer(_PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._wanted = wanted and getattr(sys.stderr, "isatty", bool)()

    def __call__(self, stage: str) -> None:
        with self._lock:
            self._stage = printable(stage)
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=self._stage)

    def __enter__(self) -> Callable[[str], None]:
        if self._wanted:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._wanted = False
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if not self._wanted:
                return
            text = TextColumn("{task.description}", markup=False)
            columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn())
            console = Console(stderr=True)
            self._bar = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar.add_task(self._stage, total=None)
            self._bar.start()
