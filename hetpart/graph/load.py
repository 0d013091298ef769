# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""From a file, or a model in memory, to a checked ``ModelProto`` whose weights were never read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from hetpart.errors import InvalidModelError
from hetpart.graph.legality import require_readable
from hetpart.graph.types import dtype_name, nbytes_of
from hetpart.graph.walk import all_tensors
from hetpart.graph.wire import WireError, skeleton

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    import onnx_ir

_SHOWN_LETTERS = 100
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model's structure. Large weights are external references into files of ``folder``."""

    proto: onnx.ModelProto
    name: str
    path: Path | None
    folder: Path | None
    """Where the files of external weights lie; ``None`` for a model without any."""


def load(model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model) -> LoadedModel:
    """Read ``model`` without its weights' bytes.

    Raises:
        InvalidModelError: the file is missing, truncated or not ONNX, or a weight's file is missing, too short or
            outside the model's folder.
    """
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return _checked(LoadedModel(copy, copy.graph.name or "model", None, None))
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        return load_file(Path(model))  # pyright: ignore[reportArgumentType]
    return load_ir(model)  # pyright: ignore[reportArgumentType]


def load_ir(model: onnx_ir.Model) -> LoadedModel:
    """The same for an ``onnx_ir`` model in memory; its external tensors must share one folder."""
    import onnx_ir as ir

    if not isinstance(model, ir.Model):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidModelError(
            f"a model is a path, an onnx.ModelProto or an onnx_ir.Model, not {type(model).__name__}",
            hint="read bytes with onnx.ModelProto.FromString",
        )
    folders = {
        Path(os.fspath(tensor.base_dir))
        for value in model.graph.initializers.values()
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    if len(folders) > 1:
        raise InvalidModelError(
            f"the weights of {model.graph.name!r} lie in {len(folders)} folders",
            hint="save the model with onnx_ir.save(), which gathers them, and pass the path",
        )
    proto = ir.to_proto(model)
    return _checked(LoadedModel(proto, model.graph.name or "model", None, next(iter(folders), None)))


def load_file(path: Path) -> LoadedModel:
    """The same for a file."""
    try:
        _check_file(path)
        proto = onnx.ModelProto.FromString(skeleton(path))
    except (WireError, DecodeError) as error:
        problem = error if isinstance(error, WireError) else "it holds no ModelProto"
        raise InvalidModelError(
            f"{path} of {path.stat().st_size:,} bytes is not an ONNX model: {problem}",
            hint="the file is truncated or of another kind; download or export it again",
        ) from error
    except OSError as error:
        raise InvalidModelError(
            f"{path} cannot be read: {error.strerror}", hint="choose a file that you may read"
        ) from error
    return _checked(LoadedModel(proto, path.stem, path, path.parent))


def _check_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is no plain file" if path.exists() else "does not exist"
        raise InvalidModelError(f"{path} {what}", hint="give the path of an .onnx file")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidModelError(
            f"the name {str(path)!r} is not valid UTF-8", hint="rename the file or the folder"
        ) from None
    if path.stat().st_size == 0:
        raise InvalidModelError(f"{path} is empty (0 bytes)", hint="download or export it again")
    _refuse_lfs_pointer(path)


def _refuse_lfs_pointer(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise InvalidModelError(
                f"{path} is a git-LFS pointer of {path.stat().st_size} bytes, not the file itself",
                hint="run `git lfs pull` in the repository it came from",
            )


def _checked(loaded: LoadedModel) -> LoadedModel:
    proto = loaded.proto
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise InvalidModelError(f"{loaded.path or loaded.name} holds no graph", hint="export the model again")
    if not proto.opset_import:
        raise InvalidModelError(
            f"{loaded.path or loaded.name} does not say which opset it uses", hint="export the model again"
        )
    require_readable(loaded)
    problems = list(external_problems(loaded))
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise InvalidModelError(
            f"weights of {loaded.path or loaded.name} cannot be read: {'; '.join(problems[:3])}{more}",
            hint="keep the external data files beside the model, whole, as the exporter wrote them",
        )
    return loaded


def external_problems(loaded: LoadedModel) -> Iterator[str]:
    """Why external tensors cannot be read, a line each."""
    for tensor in all_tensors(loaded.proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            problem = _external_problem(tensor, loaded.folder)
            if problem:
                yield f"{tensor.name!r} {problem}"


def _external_problem(tensor: onnx.TensorProto, folder: Path | None) -> str | None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        return f"lies in {location!r}, but a model in memory has no folder"
    path = inside(folder, location)
    if path is None:
        return f"points outside the model's folder: {location[:_SHOWN_LETTERS]!r}"
    if not os.path.isfile(path):  # where a name is too long to be one, Path.is_file raises
        return f"needs {location[:_SHOWN_LETTERS]!r}, which does not exist"
    return _extent_problem(tensor, entries, path)


def _extent_problem(tensor: onnx.TensorProto, entries: dict[str, str], path: Path) -> str | None:
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "-1"))
    except ValueError:
        return "has an offset or length that is not a number"
    needed = nbytes_of(dtype_name(tensor.data_type), tensor.dims)
    if offset < 0 or (length >= 0 and length != needed):
        return f"says {length} bytes at offset {offset}, but its shape needs {needed}"
    size = path.stat().st_size
    if offset + needed > size:
        _refuse_lfs_pointer(path)
        return f"ends at byte {offset + needed} of {path.name!r}, which has {size}"
    return None


def inside(folder: Path, location: str) -> Path | None:
    """``folder / location`` if that stays in ``folder``, links followed; else ``None``."""
    if not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts:
        return None
    root, path = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / location))
    return folder / location if path.is_relative_to(root) else None
