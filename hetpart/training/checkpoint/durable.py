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
        _let_go(descriptor)


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
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        _let_go(descriptor)


@contextmanager
def unchanged(folder: Path) -> Generator[None]:
    """Meanwhile no process changes names in ``folder``, where some ever did and its disk tells."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:  # a copy, or nothing that was ever written to
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        _let_go(descriptor)


_LOCK = ".lock"


def _let_go(descriptor: int) -> None:
    """Unlock and close: a process that was forked meanwhile has the same lock, and would keep it."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
