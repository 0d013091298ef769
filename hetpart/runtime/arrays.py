"""Arrays that the user keeps in files."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from tokenize import TokenError
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hetpart.errors import ExecutionError, HetpartError, InvalidFeedError, InvalidOptionError
from hetpart.frontend.safetensors import SUFFIX, Extent, stored_weights
from hetpart.runtime.dtypes import numpy_dtype

_INPUT_HINT = "write --input name=file.npy, or --input file.safetensors"
_LFS_MARK, _NPY_MARK = b"version https://git-lfs", b"\x93NUMPY"
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_NAME = 100
_REGISTERED = 2
"""``numpy.dtype.isbuiltin`` of a type that a library brings, as ``ml_dtypes`` brings bfloat16."""


def read_inputs(texts: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Arrays by input name, from texts such as ``ids=ids.npy``, and all that ``file.safetensors`` holds by its name.

    Raises:
        InvalidOptionError: a text is neither, or a name stands twice.
        InvalidFeedError: a file is missing, or is not an array that can be read safely.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        found = _read_tensors(Path(file)) if file.endswith(SUFFIX) and not name else {}
        if not found and not (name and file):
            raise InvalidOptionError(f"the input {text!r} is not name=file", hint=_INPUT_HINT)
        twice = sorted(arrays.keys() & (found or {name}))
        if twice:
            raise InvalidOptionError(f"the input {twice[0]!r} is given twice", hint="keep one")
        arrays |= found or {name: _read_array(Path(file), name)}
    return arrays


def _read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        why = "it is a folder" if path.is_dir() else "there is no such file"
        raise InvalidFeedError(f"cannot read {str(path)!r} for inputs: {why}", hint=_INPUT_HINT)
    stored = stored_weights(path)
    return {name: _read_extent(stored.folder, extent, name) for name, extent in stored.extents.items()}


def _read_extent(folder: Path, extent: Extent, name: str) -> NDArray[Any]:
    dtype = numpy_dtype(extent.dtype_name)
    if dtype is None:
        raise InvalidFeedError(
            f"{extent.location} holds the input {name!r} as {extent.dtype}, which is not read", hint=_INPUT_HINT
        )
    with (folder / extent.location).open("rb") as file:
        file.seek(extent.offset)
        return np.frombuffer(bytearray(file.read(extent.nbytes)), np.uint8).view(dtype).reshape(extent.shape)


def _read_array(path: Path, name: str) -> NDArray[Any]:
    try:
        # Mapped first: that compares the size in the header with the file's before anything is allocated.
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except OSError as error:
        raise InvalidFeedError(
            f"cannot read {str(path)!r} for the input {name!r}: {error.strerror}",
            hint=f"{_INPUT_HINT}, with the path of a file written by numpy.save",
        ) from error
    except (ValueError, TokenError) as error:
        raise InvalidFeedError(
            f"{str(path)!r} for the input {name!r} is {_what_instead(path, error)}",
            hint="write it with numpy.save; arrays of Python objects are not read",
        ) from error


def _what_instead(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        head = file.read(len(_LFS_MARK))
    if head == _LFS_MARK:
        return "a git-LFS pointer, not the array it points to: fetch it with `git lfs pull`"
    if head.startswith(_NPY_MARK) and "mmap length is greater" in str(error):
        return f"cut short: it ends after {path.stat().st_size:,} bytes, and its header tells of more"
    return f"not an .npy array: {error}"


def write_arrays(results: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Write every array to ``folder``, every one of a sequence too; names are made safe as file names, and unique.

    Floats of types that NumPy has not by itself, such as bfloat16, are written as float32, which holds each of them.

    Raises:
        ExecutionError: a result is of a kind that files cannot hold.
        HetpartError: the folder cannot be written; one that was made for it is removed if it is empty.
    """
    is_new = not os.path.lexists(folder)  # no error where the name cannot be one
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _written(results, folder)
    except OSError as error:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise HetpartError(
            f"cannot write the results to {str(folder)!r}: {error.strerror or error}",
            hint=f"{_remedy(error)}; no result is half-written",
        ) from error


def _remedy(error: OSError) -> str:
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return "give --output the name of a folder: that is a file"
    return "free some space, or give --output a folder that can be written"


def _written(results: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    written: dict[str, None] = {}
    for name, array in _arrays(results):
        safe = _UNSAFE.sub("_", name)[:_LONGEST_NAME].lstrip(".") or "output"
        candidates = chain([f"{safe}.npy"], (f"{safe}.{number}.npy" for number in count(2)))
        path = next(path for file in candidates if (path := str(folder / file)) not in written)
        _write_whole(Path(path), array)
        written[path] = None
    return tuple(written)


def _write_whole(path: Path, array: NDArray[Any]) -> None:
    """Write beside ``path`` and rename: what stands there is whole, whatever happens on the way."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            np.save(file, array, allow_pickle=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _arrays(results: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, value in results.items():
        if isinstance(value, list):
            items = cast("list[Any]", value)
            yield from _arrays({f"{name}.{index}": item for index, item in enumerate(items)})
        elif isinstance(value, np.ndarray):
            array = cast("NDArray[Any]", value)
            yield name, _readable(array)
        else:
            raise ExecutionError(
                f"the output {name!r} is a {type(value).__name__}, which .npy files cannot hold",
                hint="run without --output, or take the results from hetpart.Session",
            )


def _readable(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` as files hold it that NumPy alone can read."""
    if array.dtype == object:
        return array.astype(str)
    return array.astype(np.float32) if array.dtype.isbuiltin == _REGISTERED else array


def as_planned(array: NDArray[Any], dtype_name: str) -> NDArray[Any]:
    """``array`` in a type that NumPy has not by itself, where it is of float32 and its numbers are all of that type."""
    dtype = numpy_dtype(dtype_name)
    if dtype is None or dtype.isbuiltin != _REGISTERED or getattr(array, "dtype", None) != np.float32:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = array.astype(dtype)
    return narrow if narrow.astype(np.float32).tobytes() == array.tobytes() else array
