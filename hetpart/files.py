"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` in one step: what stands there is whole, whatever happens on the way.

    Raises:
        OSError: it cannot be written; it names ``path``.
    """
    try:
        _write_whole(path.resolve(), content)  # a link stays one
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _write_whole(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe, which nothing may replace
        return
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
