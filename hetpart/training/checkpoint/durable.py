"""Steps on a disk that hold even where the machine stops the next moment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def sync(path: Path) -> None:
    """Have the disk hold a file's content, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    """``os.rename`` that is on the disk when it returns."""
    old.rename(new)
    sync(new.parent)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """One process at a time changes names in ``folder``. The system lets go of the lock of a process that dies."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
