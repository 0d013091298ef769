"""What PyTorch says: much about itself, and pages where one line is wanted."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager

_LOGGERS = (
    "torch.onnx", "torch.export", "torch.fx", "torch._export", "torch._guards", "torch._subclasses", "onnxscript",
    "onnx_ir",
)  # fmt: skip
_LONGEST_REASON = 300


def reason_of(error: BaseException) -> str:
    """What went wrong, on one line: PyTorch's messages are pages."""
    text = " ".join(str(error).split()) or "no reason is given"
    shown = text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
    return f"{type(error).__name__}: {shown}"


@contextmanager
def quiet(level: int = logging.ERROR) -> Generator[None]:
    """Hide what PyTorch says about itself while it exports: deprecations, and packages that are not there.

    ``level``: of what is logged all the same.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
