# pyright: reportPrivateUsage=false
"""What PyTorch says: much about itself, and pages where one line is wanted."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

_LOGGERS = (
    "torch.onnx", "torch.export", "torch.fx", "torch._export", "torch._guards", "torch._subclasses", "onnxscript",
    "onnx_ir",
)  # fmt: skip
_LONGEST_REASON = 300
_without: ContextVar[bool] = ContextVar("without graphs", default=False)
_TAILS = (
    " The error above occurred when calling torch.export.export", " For more information about this error, see",
    " consider using data-dependent friendly APIs",
)  # fmt: skip
"""Where a message of PyTorch's begins to speak of other things."""


def reason_of(error: BaseException) -> str:
    """What went wrong, on one line: PyTorch's messages are pages."""
    text = " ".join(str(error).split()) or "no reason is given"
    for tail in _TAILS:
        text = text.partition(tail)[0]
    shown = text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
    return f"{type(error).__name__}: {shown}"


class _Quiet:
    """What is hidden, and by how many at once: the first of them hides it and the last one shows it again."""

    def __init__(self) -> None:
        self._lock, self._number, self._before = Lock(), 0, ExitStack()

    def begin(self, level: int) -> None:
        """Hide it."""
        with self._lock:
            loggers = [logging.getLogger(name) for name in _LOGGERS]
            if not self._number:
                self._before.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                for logger in loggers:
                    self._before.callback(logger.setLevel, logger.level)
            for logger in loggers:
                logger.setLevel(max(level, logger.level))
            self._number += 1

    def end(self) -> None:
        """Show it, where nobody else hides it."""
        with self._lock:
            self._number -= 1
            if not self._number:
                self._before.close()


_quiet = _Quiet()


@contextmanager
def quiet(level: int = logging.ERROR) -> Generator[None]:
    """Hide what PyTorch says about itself while it exports: deprecations, and packages that are not there.

    ``level``: of what is logged all the same.
    """
    _quiet.begin(level)
    try:
        yield
    finally:
        _quiet.end()


@contextmanager
def without_graphs() -> Generator[None]:
    """Let PyTorch not print the graph so far, hundreds of lines, where it refuses a module.

    What it prints with asks who exports, so that the exports of others, in other threads too, say what they say.
    """
    from torch.export import _trace

    tracer: Any = _trace
    tracer.print = _printed
    before = _without.set(True)
    try:
        yield
    finally:
        _without.reset(before)


def _printed(*said: Any, **how: Any) -> None:
    if not _without.get():
        print(*said, **how)  # noqa: T201 - PyTorch's
