"""Where in a checkout the line of Python is that an exporter recorded, on whatever machine and system it ran."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from hetpart.graph.provenance import STACK_LINE
from hetpart.plan.findings import SourceLine

_SEPARATORS = re.compile(r"[\\/]")
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_MOST_PARTS = 64
"""Of a path, looked for from its end."""
_FILES_KEPT = 4096


def source_in(stack: str, checkout: Path) -> SourceLine | None:
    """The innermost line of ``stack`` whose file is one of ``checkout``."""
    for file, line, _ in reversed(STACK_LINE.findall(stack)):
        found = _file_in(file, checkout)
        if found is not None:
            return SourceLine(found, int(line))
    return None


@lru_cache(_FILES_KEPT)
def _file_in(recorded: str, checkout: Path) -> str | None:
    """The longest end of the path ``recorded`` that is a file of ``checkout``; never one of what is outside."""
    parts = [part for part in _SEPARATORS.split(recorded) if part not in ("", ".")]
    if _INSTALLED.intersection(parts) or ".." in parts:
        return None
    kept = parts[-_MOST_PARTS:]
    ends = ("/".join(kept[begin:]) for begin in range(len(kept)))
    return next((end for end in ends if _is_within(end, checkout)), None)


def _is_within(end: str, checkout: Path) -> bool:
    """Whether it is a file, no link that leads out, and no drive of Windows."""
    inside = os.path.join(checkout, end)
    if not os.path.isfile(inside):
        return False
    return Path(os.path.realpath(inside)).is_relative_to(os.path.realpath(checkout))
