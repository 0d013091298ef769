# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A step as files: an ONNX model that ``hetpart partition`` takes, and what a call of it is given."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.files import write_whole
from hetpart.frontend.weights import HELD_FILE
from hetpart.plan.weights import external_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.frontend.model import ExportedModel

SUFFIX, FED_SUFFIX = ".onnx", ".safetensors"


def write_step(exported: ExportedModel, path: Path, fed: Mapping[str, Any]) -> list[Path]:
    """Write the model of a step to ``path``, and ``fed``, if anything, to a file beside it; returns the files.

    What no step changes lies in ``<path>.data`` where it is large.

    Raises:
        InvalidOptionError: ``path`` is no name of a model.
        HetpartError: the disk refuses.
    """
    if path.suffix != SUFFIX:
        raise InvalidOptionError(f"a step is saved as an {SUFFIX} file, not as {path.name!r}", hint="step.onnx will do")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return [*_write_model(exported, path), *_write_fed(fed, path.with_suffix(FED_SUFFIX))]
    except OSError as error:
        raise HetpartError(f"{path} cannot be written: {error.strerror}", hint="choose another folder") from error


def _write_model(exported: ExportedModel, path: Path) -> list[Path]:
    model, held, beside = onnx.ModelProto(), exported.held.folder(), path.with_name(f"{path.name}.data")
    model.CopyFrom(exported.loaded.proto)
    for tensor in external_tensors([model]):
        for entry in tensor.external_data:
            entry.value = beside.name if entry.key == "location" else entry.value
    if held is not None:
        with _whole(beside) as part:
            shutil.copyfile(held / HELD_FILE, part)
    write_whole(path, model.SerializeToString(deterministic=True))
    return [path, *([] if held is None else [beside])]


def _write_fed(fed: Mapping[str, Any], path: Path) -> list[Path]:
    if not fed:
        return []
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from hetpart.training.checkpoint.save import apart

    try:
        with _whole(path) as part:
            save_file(apart({name: torch.as_tensor(value).contiguous() for name, value in fed.items()}), part)
    except SafetensorError as error:
        raise HetpartError(f"{path} cannot be written: {error}", hint="free or choose another disk") from error
    return [path]


@contextmanager
def _whole(path: Path) -> Generator[Path]:
    """A place beside ``path`` to write to, which gets its name when all is written."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
