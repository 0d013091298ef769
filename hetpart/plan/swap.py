"""Put a finished folder in the place of another, so that at no time neither is there."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_HERE, _EXCHANGE = -100, 2
"""``AT_FDCWD`` and ``RENAME_EXCHANGE`` of Linux's ``renameat2``."""


def put_in_place(new: Path, path: Path, aside: Path) -> None:
    """Move the folder ``new`` to ``path``; what stood there ends at ``new`` or at ``aside``, on failure where it was.

    Raises:
        OSError: the system refused.
    """
    if not path.exists():
        new.rename(path)
    elif not _exchange(new, path):
        path.rename(aside)
        try:
            new.rename(path)
        except BaseException:
            aside.rename(path)
            raise


def _exchange(a: Path, b: Path) -> bool:
    """Swap two paths in one step. ``False`` where the system or its file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0
