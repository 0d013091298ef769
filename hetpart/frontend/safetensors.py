"""Where tensors lie in safetensors files, read from their headers alone. The format: https://github.com/huggingface/safetensors."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn, cast

from hetpart.errors import InvalidModelError
from hetpart.graph.external import refuse_lfs_pointer

SUFFIX = ".safetensors"
_INDEX = "*.safetensors.index.json"
_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
_PICKLED = (b"PK\x03\x04", b"\x80\x02\x8a\x0a")
"""What files of ``torch.save`` begin with: a zip archive, or its magic number as a pickle (before PyTorch 1.6)."""
_PICKLED_SUFFIXES = frozenset({".bin", ".pt", ".pth"})
_BITS = {
    "BOOL": ("BOOL", 8), "U8": ("UINT8", 8), "I8": ("INT8", 8), "U16": ("UINT16", 16), "I16": ("INT16", 16),
    "U32": ("UINT32", 32), "I32": ("INT32", 32), "U64": ("UINT64", 64), "I64": ("INT64", 64), "F16": ("FLOAT16", 16),
    "BF16": ("BFLOAT16", 16), "F32": ("FLOAT", 32), "F64": ("DOUBLE", 64), "F8_E4M3": ("FLOAT8E4M3FN", 8),
    "F8_E5M2": ("FLOAT8E5M2", 8),
}  # fmt: skip
"""By the format's name of an element type: ONNX's, and its bits."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a tensor lies."""

    location: str
    """The file, relative to the folder."""
    offset: int
    nbytes: int
    dtype: str
    """ONNX's name."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The tensors of a folder, by name."""

    folder: Path
    extents: dict[str, Extent]


def stored_weights(path: Path) -> StoredWeights:
    """What the safetensors file ``path`` holds, or the files of the folder ``path``: those its index names, else all.

    Raises:
        InvalidModelError: there is none, or one is cut short or no such file.
    """
    if path.is_file():
        return StoredWeights(path.parent, _extents(path.parent, path.name))
    files = _listed(path)
    if not files:
        _refuse_empty(path)
    found: dict[str, Extent] = {}
    for file in files:
        found |= _extents(path, file)
    return StoredWeights(path, found)


def _refuse_empty(folder: Path) -> NoReturn:
    if not folder.exists():
        raise InvalidModelError(f"{folder} does not exist", hint=_FOLDER)
    pickled = next((file.name for file in sorted(folder.iterdir()) if file.suffix in _PICKLED_SUFFIXES), None)
    beside = f", and {pickled}, which may be of torch.save" if pickled else ""
    raise InvalidModelError(f"{folder} holds no {SUFFIX} file{beside}", hint=_CONVERT if pickled else _FOLDER)


def _listed(folder: Path) -> list[str]:
    """The files that the folder's index names, or all where it has none."""
    indices = sorted(folder.glob(_INDEX))
    if not indices:
        return sorted(file.name for file in folder.glob(f"*{SUFFIX}"))
    try:
        mapped = json.loads(indices[0].read_bytes())["weight_map"].values()
        return sorted({str(name) for name in mapped})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModelError(f"{indices[0]} is no index of safetensors files: {error}", hint=_AGAIN) from error


def _extents(folder: Path, location: str) -> dict[str, Extent]:
    path = folder / location
    if Path(location).name != location or not path.is_file():
        raise InvalidModelError(f"the weights in {path} are not there", hint=_AGAIN)
    refuse_lfs_pointer(path)
    try:
        header, start = _header(path)
        return {
            name: _extent(location, start, entry, path.stat().st_size)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, struct.error) as error:
        if _is_pickled(path):
            raise InvalidModelError(f"{path} is a file of torch.save, no safetensors file", hint=_CONVERT) from error
        raise InvalidModelError(f"{path} is no safetensors file: {error}", hint=_AGAIN) from error


def _is_pickled(path: Path) -> bool:
    """Whether ``torch.save`` wrote it."""
    with path.open("rb") as file:
        start = file.read(max(map(len, _PICKLED)))
    return start.startswith(_PICKLED)


def _header(path: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """What the file says of its tensors, and where the first byte of them is."""
    with path.open("rb") as file:
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        if length > min(_MOST_HEADER, path.stat().st_size):
            raise ValueError(f"its header would be {length:,} bytes long")
        header: object = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise TypeError("its header is no JSON object")
    return cast("dict[str, dict[str, Any]]", header), _LENGTH.size + length


def _extent(location: str, start: int, entry: dict[str, Any], size: int) -> Extent:
    dtype, bits = _BITS.get(str(entry["dtype"]), (str(entry["dtype"]), 0))
    shape = tuple(int(number) for number in entry["shape"])
    begin, end = (int(number) for number in entry["data_offsets"])
    if bits and end - begin != prod(shape) * bits // 8:
        raise ValueError(f"a tensor of shape {list(shape)} and type {dtype} would have {end - begin:,} bytes")
    if begin < 0 or begin > end or start + end > size:
        raise ValueError(f"it has {size:,} bytes, and at least {start + end:,} belong to it")
    return Extent(location, start + begin, end - begin, dtype, shape)


_AGAIN = "download it again, all files of it"
_CONVERT = "read it with torch.load, and write its tensors with safetensors.torch.save_file"
_FOLDER = "name the folder that the model was downloaded to"
