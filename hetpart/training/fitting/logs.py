"""Callbacks that write down what happens, and that save what came of it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import SEEK_END
from pathlib import Path
from typing import Any, Protocol, TextIO

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.training.fitting.events import Callback, Ended, Evaluated, Event, Trained
from hetpart.training.limits import path_of, require_count

_COLUMNS = ("step", "epoch", "name", "value")
_LONGEST = 80
"""Bytes that are read of the first line of a file that may be no log."""
_LAST = 1 << 16
"""Bytes at the end of a log in which its last lines lie."""


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """What is worth a curve, by name."""
    match event:
        case Trained():
            yield "train/loss", event.loss
            yield "train/seconds", event.seconds
        case Evaluated():
            yield from ((f"evaluation/{name}", number) for name, number in event.metrics.items())
        case Ended():
            return


class CSVLog(Callback):
    """A line per number: ``step,epoch,name,value``. A file that is there is continued, as by a run that is resumed.

    A last line that was cut off, as by a kill, is left out then: nobody knows how its number went on.

    Raises:
        HetpartError: the file cannot be written.
        InvalidOptionError: it is none of such lines, or ``path`` is no path.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path_of("path", path)
        _require_continued(self._path)
        _end_with_a_whole_line(self._path)
        self._file = _opened(self._path)
        if not self._file.tell():
            self._write([_COLUMNS])

    def on(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._file.close()
            return
        if self._file.closed:  # by the end of another training
            self._file = _opened(self._path)
        self._write((event.step, event.epoch, name, repr(number)) for name, number in scalars(event))
        if isinstance(event, Evaluated):
            self._file.flush()

    def _write(self, rows: Iterable[tuple[object, ...]]) -> None:
        csv.writer(self._file, lineterminator="\n").writerows(rows)


def _require_continued(path: Path) -> None:
    """See that a file that is there is such a log."""
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST).decode(errors="replace").rstrip("\r\n")
    except OSError:  # there is none yet, or writing tells why not
        return
    if first and first != ",".join(_COLUMNS):
        raise InvalidOptionError(
            f"{path} begins with {first!r}, and a log's first line is {','.join(_COLUMNS)!r}",
            hint="give another path, or move the file away",
        )


def _end_with_a_whole_line(path: Path) -> None:
    """Leave out what stands behind the last line that ends."""
    with suppress(OSError), path.open("r+b") as file:  # there is none yet, or writing tells why not
        size = file.seek(0, SEEK_END)
        file.seek(max(size - _LAST, 0))
        last = file.read()
        file.truncate(size - len(last) + last.rfind(b"\n") + 1)


def _opened(path: Path | str) -> TextIO:
    try:
        return Path(path).open("a", newline="", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path | str, error: OSError) -> HetpartError:
    return HetpartError(f"{path} cannot be written: {error.strerror}", hint="choose another folder")


class _ScalarWriter(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...
    def close(self) -> None: ...


class TensorBoard(Callback):
    """Curves for TensorBoard, through ``torch.utils.tensorboard``.

    Raises:
        HetpartError: the folder cannot be written.
        InvalidOptionError: the package ``tensorboard`` is not installed, or ``folder`` is no path.
    """

    def __init__(self, folder: Path | str) -> None:
        path = path_of("folder", folder)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InvalidOptionError(
                "TensorBoard logging needs the package tensorboard", hint="pip install 'hetpart[training]'"
            ) from error
        try:
            self._writer: _ScalarWriter = SummaryWriter(str(path))
        except OSError as error:
            raise _unwritable(path, error) from error

    def on(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._writer.close()
            return
        for name, number in scalars(event):
            self._writer.add_scalar(name, number, event.step)


class Checkpoints(Callback):
    """Calls ``save()`` every so many steps and after the last, unless an error ended the training.

    ``Checkpoints(lambda: step.save_checkpoint("ckpt"), 500)``.
    """

    def __init__(self, save: Callable[[], Any], every: int) -> None:
        require_count("every", every)
        given: Any = save
        if not callable(given):
            raise InvalidOptionError(
                f"Checkpoints cannot call {given!r}", hint='give a function: lambda: step.save_checkpoint("ckpt")'
            )
        self._save, self._every, self._saved, self._made = save, every, 0, 0

    def on(self, event: Event) -> None:
        match event:
            case Trained(step=step):
                self._made = step
                due = step % self._every == 0
            case Ended(failed=failed):
                due = not failed and self._made > self._saved
                self._made = self._saved = 0  # another training may count from 1 again
            case Evaluated():
                due = False
        if due:
            self._save()
            self._saved = self._made
