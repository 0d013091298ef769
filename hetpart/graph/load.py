# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""From a file, or a model in memory, to a checked ``ModelProto`` whose weights were never read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from hetpart.errors import InvalidModelError
from hetpart.graph.external import external_locations, refuse_lfs_pointer, require_readable_weights
from hetpart.graph.legality import require_readable
from hetpart.graph.walk import all_tensors
from hetpart.graph.wire import WireError, skeleton

if TYPE_CHECKING:
    import onnx_ir

_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive, as PyTorch and Keras save models",
    b"\x80\x02": "a Python pickle",
    b"GGUF": "a GGUF file, as llama.cpp reads",
    b"\x89HDF": "an HDF5 file",
    b"<": "a web page or other markup",
    b"{": "JSON",
}
"""How files begin that people take for models."""
_PLAN_FILE = "plan.json"
"""What a bundle holds."""
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model's structure. Large weights are external references into files of ``folder``."""

    proto: onnx.ModelProto
    name: str
    path: Path | None
    folder: Path | None
    """Where the files of external weights lie; ``None`` for a model without any."""
    weights_apart: bool = False
    """Whether external weights are in no file as yet, so that only their sizes are known."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Numbers that symbolic dimensions have where the user gives none."""
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict[str, tuple[int, int | None]])
    """The least and the largest number that each may have; ``None`` for no largest."""
    notes: tuple[str, ...] = ()


def load(model: str | os.PathLike[str] | onnx.ModelProto | onnx_ir.Model | LoadedModel) -> LoadedModel:
    """Read ``model`` without its weights' bytes; of one that was read before, make a copy.

    Raises:
        InvalidModelError: the file is missing, truncated or not ONNX, or a weight's file is missing, too short or
            outside the model's folder.
    """
    return _checked(read(model))


def read(model: str | os.PathLike[str] | onnx.ModelProto | onnx_ir.Model | LoadedModel) -> LoadedModel:
    """The same of a model that need not be legal, nor have its weights.

    A model in memory stays as it is: what is returned is a copy.

    Raises:
        InvalidModelError: the file is missing, truncated or not ONNX.
    """
    if isinstance(model, LoadedModel):
        return replace(model, proto=_copy(model.proto))
    if isinstance(model, onnx.ModelProto):
        copy = _copy(model)
        return LoadedModel(copy, copy.graph.name or "model", None, None)
    return _read_file(Path(model)) if isinstance(model, str | os.PathLike) else _read_ir(model)


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def _read_ir(model: object) -> LoadedModel:
    """The same of an ``onnx_ir`` model in memory; its external tensors must share one folder."""
    import onnx_ir as ir

    if not isinstance(model, ir.Model):
        raise InvalidModelError(
            f"a model is a path, an onnx.ModelProto, an onnx_ir.Model or PyTorch's, not {type(model).__name__}",
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
    return LoadedModel(proto, model.graph.name or "model", None, next(iter(folders), None))


def _read_file(path: Path) -> LoadedModel:
    """The same of a file."""
    try:
        _check_file(path)
        real = Path(os.path.realpath(path))
        proto = onnx.ModelProto.FromString(skeleton(real))
    except (WireError, DecodeError) as error:
        raise _no_model(path, error) from error
    except OSError as error:
        raise InvalidModelError(
            f"{path} cannot be read: {error.strerror}", hint="choose a file that you may read"
        ) from error
    return LoadedModel(proto, path.stem, path, _folder(path, real, proto))


def _folder(path: Path, real: Path, proto: onnx.ModelProto) -> Path:
    """Where the weights are: beside the model's own bytes or, where the model is a link to those, beside the link.

    A download cache keeps files under names of its own, and links to them under theirs.
    """
    if not path.is_symlink():
        return path.parent
    places = {location == real.name for location in external_locations(all_tensors(proto))}
    if len(places) > 1:
        raise InvalidModelError(
            f"{path} is a link to {real}, and only some of its weights lie there",
            hint="copy the model and its data files into one folder",
        )
    return real.parent if places == {True} else path.parent


_TOO_DEEP = "MaxDepth"
"""Of what protobuf says where messages lie deeper inside messages than it reads."""


def _no_model(path: Path, error: Exception) -> InvalidModelError:
    """What the file is instead: the beginning of a model, or of something else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    kind = next((kind for mark, kind in _OTHER_KINDS.items() if head.startswith(mark)), None)
    if kind is None and isinstance(error, WireError) and error.missing:
        return InvalidModelError(
            f"{path} is cut short: it ends after {size:,} bytes, and at least {error.missing:,} more belong to it",
            hint="download or export it again",
        )
    if kind is None and _TOO_DEEP in str(error):
        return InvalidModelError(
            f"{path} of {size:,} bytes nests messages deeper than protobuf reads, 100 at most: bodies inside bodies",
            hint="export it with fewer branches and loops inside one another, some 30 at most",
        )
    if kind is not None and "PyTorch" in kind:
        return InvalidModelError(
            f"{path} of {size:,} bytes is not an ONNX model: it is {kind}",
            hint="give the module itself to hetpart.partition, or a .pt2 file that torch.export.save wrote",
        )
    problem = f"it is {kind}" if kind else error if isinstance(error, WireError) else "it holds no ModelProto"
    return InvalidModelError(
        f"{path} of {size:,} bytes is not an ONNX model: {problem}",
        hint="give an .onnx file; `torch.onnx.export` and `optimum-cli export onnx` make one",
    )


def _check_file(path: Path) -> None:
    if (path / _PLAN_FILE).is_file():
        raise InvalidModelError(
            f"{path} is a bundle: a plan and the parts of a model, and the whole model is wanted",
            hint="give the model that it was made of; `hetpart report`, `run` and `diff` take bundles",
        )
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is no plain file" if path.exists() else "does not exist"
        raise InvalidModelError(
            f"{path} {what}", hint="give the path of an .onnx file, or of a .pt2 file that torch.export.save wrote"
        )
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidModelError(
            f"the name {str(path)!r} is not valid UTF-8", hint="rename the file or the folder"
        ) from None
    if path.stat().st_size == 0:
        raise InvalidModelError(f"{path} is empty (0 bytes)", hint="download or export it again")
    refuse_lfs_pointer(path)


def _checked(loaded: LoadedModel) -> LoadedModel:
    proto = loaded.proto
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise InvalidModelError(f"{loaded.path or loaded.name} holds no graph", hint="export the model again")
    if not proto.graph.output:
        raise InvalidModelError(
            f"{loaded.path or loaded.name} has no outputs, so there is nothing to compute",
            hint="name what the model returns as graph outputs when it is exported",
        )
    if not proto.opset_import:
        raise InvalidModelError(
            f"{loaded.path or loaded.name} does not say which opset it uses", hint="export the model again"
        )
    tensors = all_tensors(proto)
    require_readable(loaded, tensors)
    if not loaded.weights_apart:
        require_readable_weights(external_locations(tensors), str(loaded.path or loaded.name), loaded.folder)
    return loaded
