"""Arrays that the user keeps in files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetpart.errors import InvalidFeedError, InvalidOptionError

_INPUT_HINT = "write --input name=file.npy"


def read_inputs(texts: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Arrays by input name, from texts such as ``ids=ids.npy``.

    Raises:
        InvalidOptionError: a text is not ``name=file``, or a name stands twice.
        InvalidFeedError: a file is missing, or is not an array that can be read safely.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        if not name or not file:
            raise InvalidOptionError(f"the input {text!r} is not name=file", hint=_INPUT_HINT)
        if name in arrays:
            raise InvalidOptionError(f"the input {name!r} is given twice", hint="keep one")
        arrays[name] = _read_array(Path(file), name)
    return arrays


def _read_array(path: Path, name: str) -> NDArray[Any]:
    try:
        # Mapped first: that compares the size in the header with the file's before anything is allocated.
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except OSError as error:
        raise InvalidFeedError(f"cannot read {str(path)!r} for the input {name!r}: {error.strerror}") from error
    except (ValueError, TokenError) as error:
        raise InvalidFeedError(
            f"{str(path)!r} for the input {name!r} is not an .npy array: {error}",
            hint="write it with numpy.save; arrays of Python objects are not read",
        ) from error
