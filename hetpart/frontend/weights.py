# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Weights of a PyTorch model: where each lies, or will lie, so that no byte is read before something runs."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import onnx_ir as ir
import torch
from torch._subclasses.fake_tensor import FakeTensor

from hetpart.errors import HetpartError, InvalidModelError, MissingContentError
from hetpart.graph.wire import INLINE_LIMIT
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hetpart.frontend.safetensors import Extent

HELD_FILE = "weights.bin"
_ALIGNMENT = 4096
"""Bytes; a tensor that starts on a page is mapped without its neighbour."""
_LARGEST_INLINE = 2**26
"""Bytes of a tensor beside files that stays in the model: a buffer, which no file keeps."""
_SHOWN = 3
_LACKING = "build the module that the files are of; buffers that they do not keep need content of their own"
_RENAMED = (
    f"{_LACKING}; where transformers renames or stacks weights when it loads files, as it does experts, "
    "write the model that it loaded with save_pretrained(FOLDER, save_original_format=False)"
)


@dataclass(slots=True, eq=False, weakref_slot=True)
class HeldWeights:
    """Weights that are in memory, or nowhere yet; written to a file the first time that something needs one."""

    name: str
    """Of the model."""
    tensors: list[tuple[int, torch.Tensor]] = field(default_factory=list[Any])
    """By their place in the file."""
    missing: list[str] = field(default_factory=list[str])
    """Names of those that have no content."""
    unread: Sequence[str] = ()
    """Names in the files that the module does not have."""
    nbytes: int = 0
    _written: Path | None = None
    _turn: Lock = field(default_factory=Lock)

    def place(self, nbytes: int) -> int:
        """Room for a tensor; its offset."""
        start = -(-self.nbytes // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = start + nbytes
        return start

    def folder(self) -> Path | None:
        """The folder with ``HELD_FILE``, which lasts as long as this; ``None`` where no weight is held.

        Raises:
            MissingContentError: weights have none.
            HetpartError: the disk has no room.
        """
        if not self.nbytes:
            return None
        if self.missing:
            raise MissingContentError(
                f"{self.name} was planned without the content of its weights: {_few(self.missing)}",
                hint="partition it again with weights=FOLDER, --weights FOLDER on the command line: safetensors files",
            )
        with self._turn:
            if self._written is None:
                self._written = self._write()
            return self._written

    def _write(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="hetpart-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            with (folder / HELD_FILE).open("wb") as file:
                for offset, tensor in self.tensors:
                    file.seek(offset)
                    file.write(_bytes_of(tensor))
                file.truncate(self.nbytes)
        except OSError as error:
            raise HetpartError(
                f"the weights of {self.name}, {format_bytes(self.nbytes)}, cannot be written to {folder}: "
                f"{error.strerror}",
                hint="free some space there, or let TMPDIR name another folder",
            ) from error
        return folder


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return flat.numpy().data


def names_of_each(weights: Iterable[str], tied: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By the name of a weight all that it has."""
    groups: dict[str, list[str]] = {}
    for weight in weights:
        groups.setdefault(tied.get(weight, weight), []).append(weight)
    return {name: tuple(names) for names in groups.values() for name in names}


def mapped(folder: Path, extent: Extent, like: torch.Tensor) -> torch.Tensor:
    """What lies there, in the type and form of ``like``; who writes to it writes to no file."""
    if not extent.nbytes:
        return torch.empty(like.shape, dtype=like.dtype)
    content = np.memmap(folder / extent.location, np.uint8, "c", extent.offset, (extent.nbytes,))
    return torch.from_numpy(content).view(like.dtype).reshape(like.shape)


def has_content(tensor: torch.Tensor) -> bool:
    """Whether there are bytes behind it."""
    return not isinstance(tensor, FakeTensor) and tensor.device.type != "meta"


def settle_weights(
    model: ir.Model,
    name: str,
    files: Mapping[str, Extent] | None,
    state: set[str],
    tied: Mapping[str, str],
    otherwise: str = "",
) -> HeldWeights:
    """Let every initializer of ``model`` lie in one of ``files``, be held, or stay where it is small.

    Beside files nothing is held: of what they lack stays in the model what is not in ``state``, the names that files of
    the module have. ``otherwise`` says what to do where they lack some, in the place of the usual.

    Raises:
        InvalidModelError: a file has one in another shape or type, or they lack some of ``state`` or without content.
    """
    held = HeldWeights(name)
    aliases = _merge_tied(model.graph, tied)
    beside_files = files is not None
    kept_inline = _LARGEST_INLINE if beside_files else INLINE_LIMIT
    files = files or {}
    known: set[str] = set()
    lacking: list[str] = []
    for value in model.graph.initializers.values():
        tensor = _torch_tensor(value)
        if tensor is None:
            continue
        names = _names_of(str(value.name), aliases, tied)
        known.update(names)
        stays = has_content(tensor) and tensor.nbytes <= kept_inline
        extent = next((files[name] for name in names if name in files), None)
        if extent is not None:
            value.const_value = _in_file(value, extent)
        elif beside_files and not (stays and state.isdisjoint(names)):
            lacking.append(str(value.name))
        elif not stays:
            value.const_value = _held(value, tensor, held)
    others = [name for name in files if name not in known]
    if lacking:
        _refuse_lacking(name, lacking, others, otherwise)
    held.unread = [name for name in others if name not in state and name not in tied]
    return held


def note_of_unread(held: HeldWeights) -> tuple[str, ...]:
    """What the user should know of the files: that they hold more than the module has."""
    number = len(held.unread)
    names = f"the files have {number} {'tensor' if number == 1 else 'tensors'} that {held.name} does not"
    return (f"{names}, and nothing reads: {_few(held.unread)}",) if number else ()


def _names_of(name: str, aliases: Mapping[str, Sequence[str]], tied: Mapping[str, str]) -> list[str]:
    """``name`` and all that the module calls the same weight."""
    first = tied.get(name, name)
    return [name, first, *aliases.get(name, ()), *(other for other, kept in tied.items() if kept == first)]


def _refuse_lacking(name: str, lacking: Sequence[str], others: Sequence[str], otherwise: str) -> NoReturn:
    """``others`` are names that files have and the model does not."""
    beside = f", and have others: {_few(others)}" if others else ""
    raise InvalidModelError(
        f"the files lack weights of {name}: {_few(lacking)}{beside}",
        hint=otherwise or (_RENAMED if others else _LACKING),
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def _torch_tensor(value: ir.Value) -> torch.Tensor | None:
    raw = getattr(value.const_value, "raw", None)
    return raw if isinstance(raw, torch.Tensor) else None


def _merge_tied(graph: ir.Graph, tied: Mapping[str, str]) -> dict[str, list[str]]:
    """Let all that use one tensor under several names use it under the first; the others, by that."""
    others: dict[str, list[str]] = {}
    first: dict[tuple[Any, ...], ir.Value] = {}
    for name, value in list(graph.initializers.items()):
        tensor = _torch_tensor(value)
        if tensor is None or tensor.layout != torch.strided:
            continue
        kept = first.setdefault(identity(tensor) if has_content(tensor) else (tied.get(name, name),), value)
        if kept is not value and value not in graph.outputs:
            ir.convenience.replace_all_uses_with(value, kept)
            del graph.initializers[name]
            others.setdefault(str(kept.name), []).append(name)
    return others


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What two tensors that are the same bytes in the same form have in common."""
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _in_file(value: ir.Value, extent: Extent) -> ir.ExternalTensor:
    known = value.const_value
    assert known is not None
    shape = tuple(size for size in known.shape if isinstance(size, int))
    if shape != extent.shape or known.dtype.name != extent.dtype:
        raise InvalidModelError(
            f"{extent.location} has {value.name!r} as {extent.dtype}{list(extent.shape)}, "
            f"and the model as {known.dtype.name}{list(shape)}",
            hint="build the module from the configuration that lies beside the files, in their dtype",
        )
    return _external(value, extent.location, extent.offset, extent.nbytes)


def _held(value: ir.Value, tensor: torch.Tensor, held: HeldWeights) -> ir.ExternalTensor:
    known = value.const_value
    assert known is not None
    offset = held.place(known.nbytes)
    if has_content(tensor):
        held.tensors.append((offset, tensor))
    else:
        held.missing.append(str(value.name))
    return _external(value, HELD_FILE, offset, known.nbytes)


def _external(value: ir.Value, location: str, offset: int, nbytes: int) -> ir.ExternalTensor:
    known = value.const_value
    assert known is not None
    assert isinstance(known.shape, ir.Shape)
    return ir.ExternalTensor(location, offset, nbytes, known.dtype, shape=known.shape, name=str(value.name))
