"""Steps on a disk that hold even where the machine stops the next moment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
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
def held(folder: Path) -> Generator[None]:
    """While a process writes to ``folder``, others know that by ``is_held``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network's disk may lock no folders: there all are taken for held
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process writes to ``folder``, or has removed it; one that died does not."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """One process at a time changes names in ``folder``. The system lets go of the lock of a process that dies."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
