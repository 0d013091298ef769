"""Where tensors lie in safetensors files, read from their headers alone. The format: https://github.com/huggingface/safetensors."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from hetpart.errors import InvalidModelError
from hetpart.graph.external import is_outside, refuse_lfs_pointer

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX = ".safetensors"
_WHOLE = "model.safetensors"
_INDEX = ".safetensors.index.json"
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

    @property
    def dtype_name(self) -> str:
        """The graph's name of the type."""
        return {"FLOAT": "float32", "DOUBLE": "float64"}.get(self.dtype, self.dtype.lower())


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The tensors of a folder, by name."""

    folder: Path
    extents: dict[str, Extent]


def stored_weights(path: Path) -> StoredWeights:
    """What the safetensors file ``path`` holds, what the index ``path`` names, or the files of the folder ``path``.

    Of a folder those that `transformers` reads: ``model.safetensors``; else what an index names, each tensor from the
    file that the index names for it; else all files.

    Raises:
        InvalidModelError: there is none, one is cut short or no such file, or they do not say which tensor is meant.
    """
    folder = path.parent if path.is_file() else path
    return _resolved(StoredWeights(folder, _found(path)))


def _found(path: Path) -> dict[str, Extent]:
    if path.is_file():
        is_index = path.name.endswith(_INDEX)
        return _indexed(path.parent, path) if is_index else _extents(path.parent, path.name)
    if (path / _WHOLE).is_file():
        return _extents(path, _WHOLE)
    index = _index_of(path)
    if index is not None:
        return _indexed(path, index)
    files = sorted(file.name for file in path.glob(f"*{SUFFIX}"))
    if not files:
        _refuse_empty(path)
    found: dict[str, Extent] = {}
    for file in files:
        extents = _extents(path, file)
        _require_once(found, extents, path)
        found |= extents
    return found


def _resolved(stored: StoredWeights) -> StoredWeights:
    """``stored`` by the files that links lead to, as those in Hugging Face's cache do: ONNX Runtime follows none."""
    root = stored.folder.resolve()
    files = {extent.location: (root / extent.location).resolve() for extent in stored.extents.values()}
    if all(file.is_relative_to(root) for file in files.values()):
        return stored
    root = Path(os.path.commonpath([file.parent for file in files.values()]))
    names = {location: file.relative_to(root).as_posix() for location, file in files.items()}
    found = {name: replace(extent, location=names[extent.location]) for name, extent in stored.extents.items()}
    return StoredWeights(root, found)


def _require_once(found: Mapping[str, Extent], extents: Mapping[str, Extent], folder: Path) -> None:
    twice = sorted(found.keys() & extents.keys())
    if twice:
        files = f"{found[twice[0]].location} and {extents[twice[0]].location}"
        raise InvalidModelError(f"{files} in {folder} both hold {twice[0]!r}", hint=_ONE)


def _refuse_empty(folder: Path) -> NoReturn:
    if not folder.exists():
        raise InvalidModelError(f"{folder} does not exist", hint=_FOLDER)
    pickled = next((file.name for file in sorted(folder.iterdir()) if file.suffix in _PICKLED_SUFFIXES), None)
    beside = f", and {pickled}, which may be of torch.save" if pickled else ""
    raise InvalidModelError(f"{folder} holds no {SUFFIX} file{beside}", hint=_CONVERT if pickled else _FOLDER)


def _index_of(folder: Path) -> Path | None:
    """The index of the folder's files; the one that `transformers` reads where there are more."""
    found = sorted(folder.glob(f"*{_INDEX}"))
    named = folder / f"model{_INDEX}"
    if len(found) > 1 and named not in found:
        raise InvalidModelError(f"{found[0].name} and {found[1].name} are both an index of {folder}", hint=_APART)
    return named if named in found else next(iter(found), None)


def _indexed(folder: Path, index: Path) -> dict[str, Extent]:
    """Every tensor that ``index`` names, where it says that it lies."""
    try:
        held: object = json.loads(index.read_bytes())
    except ValueError as error:
        raise InvalidModelError(f"{index} is no index of safetensors files: {error}", hint=_AGAIN) from error
    listed = cast("dict[str, object]", held).get("weight_map") if isinstance(held, dict) else None
    if not isinstance(listed, dict):
        raise InvalidModelError(
            f"{index} is no index of safetensors files: it has no weight_map, an object of files by tensor", hint=_AGAIN
        )
    places = {name: str(file) for name, file in cast("dict[str, object]", listed).items()}
    files = {file: _extents(folder, file) for file in sorted(set(places.values()))}
    lacking = next((name for name, file in places.items() if name not in files[file]), None)
    if lacking is not None:
        raise InvalidModelError(
            f"{index.name} says that {lacking!r} lies in {places[lacking]}, which lacks it", hint=_AGAIN
        )
    return {name: files[file][name] for name, file in places.items()}


def _extents(folder: Path, location: str) -> dict[str, Extent]:
    path = folder / location
    if is_outside(location):
        raise InvalidModelError(f"{location!r}, which is to hold weights, lies outside of {folder}", hint=_INSIDE)
    if not path.is_file():
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


_INSIDE = "keep it in that folder, or in one inside, and name it so in the index"
_AGAIN = "download it again, all files of it"
_CONVERT = "read it with torch.load, and write its tensors with safetensors.torch.save_file"
_FOLDER = "name the folder that the model was downloaded to"
_ONE = "name the one file that is meant, weights=FOLDER/FILE, or keep the others elsewhere"
_APART = "keep what belongs to one of them in a folder of its own"
