# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whether the files that hold a model's weights are there, whole, and in the model's folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import InvalidModelError
from hetpart.graph.types import dtype_name, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Locations = Mapping[str, Sequence[onnx.TensorProto]]

_LFS_POINTER = b"version https://git-lfs"
LFS_HINT = "run `git lfs pull` in the repository it came from"
_KEEP = "keep the external data files beside the model, whole, as the exporter wrote them"
_SHOWN = 3
_SHOWN_LETTERS = 100


def require_readable_weights(locations: Locations, where: str, folder: Path | None) -> None:
    """Refuse a model whose external tensors, by their ``locations``, cannot be read from files in ``folder``.

    Raises:
        InvalidModelError: a file is missing, too short, outside the folder or a git-LFS pointer; or there is no folder.
    """
    for pointer in lfs_pointers(locations, folder):
        refuse_lfs_pointer(pointer)
    problems = [problem for _, problem in weight_problems(locations, folder)]
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise InvalidModelError(f"weights of {where} cannot be read: {'; '.join(problems[:_SHOWN])}{more}", hint=_KEEP)


def refuse_lfs_pointer(path: Path) -> None:
    """Refuse a file that only says where git-LFS keeps the real one."""
    if is_lfs_pointer(path):
        raise InvalidModelError(
            f"{path} is a git-LFS pointer of {path.stat().st_size} bytes, not the file itself", hint=LFS_HINT
        )


def is_lfs_pointer(path: Path) -> bool:
    """Whether ``path`` is a file that only says where git-LFS keeps the real one."""
    if not os.path.isfile(path):  # where a name is too long to be one, Path.is_file raises
        return False
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def external_locations(tensors: Iterable[onnx.TensorProto]) -> dict[str, list[onnx.TensorProto]]:
    """Those of ``tensors`` that are external, by the file that holds them."""
    found: dict[str, list[onnx.TensorProto]] = {}
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            found.setdefault(_entries(tensor).get("location", ""), []).append(tensor)
    return found


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def lfs_pointers(locations: Locations, folder: Path | None) -> Iterator[Path]:
    """Files in ``folder`` that should hold weights and only say where git-LFS keeps them."""
    if folder is None:
        return
    for location in locations:
        if _file_problem(folder, location, location) is None and is_lfs_pointer(folder / location):
            yield folder / location


def weight_problems(locations: Locations, folder: Path | None) -> Iterator[tuple[str, str]]:
    """Why tensors cannot be read, a line for each file, with the file's name."""
    for location, tensors in locations.items():
        shown = repr(location[:_SHOWN_LETTERS])
        problem = f"lies in {shown}, but a model in memory has no folder" if folder is None else None
        problem = problem or _file_problem(folder or Path(), location, shown)
        if problem is None:
            size = os.path.getsize((folder or Path()) / location)
            found = {tensor.name: _extent_problem(tensor, shown, size) for tensor in tensors}
        else:
            found = dict.fromkeys((tensor.name for tensor in tensors), problem)
        broken = [f"{name!r} {why}" for name, why in found.items() if why]
        if broken:
            more = len(broken) - 1
            yield location, broken[0] + (f", and so {'does' if more == 1 else 'do'} {more} more" if more else "")


def _file_problem(folder: Path, location: str, shown: str) -> str | None:
    if is_outside(location):
        return f"points outside the model's folder: {shown}"
    root, path = os.path.realpath(folder), Path(os.path.realpath(folder / location))
    if not path.is_relative_to(root):
        return f"needs {shown}, a link that leads out of the model's folder to {path}: copy that file in its place"
    if not os.path.isfile(path):  # where a name is too long to be one, Path.is_file raises
        return f"needs {shown}, which does not exist"
    return None


def is_outside(location: str) -> bool:
    """Whether ``location``, as a model writes it, is none inside of the folder that it is relative to."""
    return not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts


def _extent_problem(tensor: onnx.TensorProto, shown: str, size: int) -> str | None:
    entries = _entries(tensor)
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "-1"))
    except ValueError:
        return "has an offset or length that is not a number"
    needed = nbytes_of(dtype_name(tensor.data_type), tensor.dims)
    if offset < 0 or (length >= 0 and length != needed):
        return f"says {length} bytes at offset {offset}, but its shape needs {needed}"
    if offset + needed > size:
        return f"ends at byte {offset + needed} of {shown}, which has {size}: the file is cut short or another one"
    return None
