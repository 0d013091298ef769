"""Reading checkpoints: tensor by tensor, into tensors that are there, or as a plain ``state_dict``."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hetpart.errors import InvalidCheckpointError
from hetpart.training.checkpoint.durable import unchanged
from hetpart.training.checkpoint.layout import Stored, partial, parts_in, stored
from hetpart.training.checkpoint.save import ALIASES, METADATA, save
from hetpart.training.limits import path_of, require_count
from hetpart.training.optimizers.protocol import STATE, UNLISTED


@dataclass(frozen=True, slots=True)
class _File:
    """A part that stays open."""

    path: Path
    opened: Any

    @staticmethod
    def of(path: Path) -> _File:
        with _reading(path):
            return _File(path, safe_open(path, "pt"))

    def tensor(self, name: str) -> Tensor:
        """Mapped from the file."""
        with _reading(self.path):
            return self.opened.get_tensor(name)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint. Tensors are read when they are asked for.

    Its files stay open: to be replaced or removed meanwhile changes nothing of it.
    """

    step: int
    metadata: dict[str, Any]
    order: int
    """The how manyth it is of those that were written."""
    files: Mapping[str, _File]
    """The file of each name."""
    aliases: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return sorted({*self.files, *self.aliases})

    def tensor(self, name: str) -> Tensor:
        """A tensor on the host, read through a mapping of the file.

        Raises:
            InvalidCheckpointError: there is none of this name.
        """
        own = self.aliases.get(name, name)
        if own not in self.files:
            raise InvalidCheckpointError(
                f"the checkpoint of step {self.step} has no tensor {name!r}", hint=f"it has {self.names[:8]}"
            )
        return self.files[own].tensor(own)

    def state_dict(self) -> dict[str, Tensor]:
        """What a plain PyTorch model loads: without the optimizer's state and buffers that are not persistent."""
        left_out = self.metadata.get(UNLISTED, ())
        return {name: self.tensor(name) for name in self.names if not name.startswith(STATE) and name not in left_out}

    @torch.no_grad()
    def read_into(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy every tensor of the checkpoint into the one of its name, wherever that lies.

        Raises:
            InvalidCheckpointError: names, shapes or dtypes differ. Nothing has been copied then.
        """
        self._require_names(tensors)
        found = {name: self.tensor(name) for name in tensors}  # mapped, not read
        for name, tensor in tensors.items():
            _require_same(f"{name}, step {self.step}", found[name], tensor)
        for name, tensor in tensors.items():
            tensor.copy_(found[name])

    def _require_names(self, tensors: Mapping[str, Tensor]) -> None:
        missing, surplus = sorted(set(tensors) - set(self.names)), sorted(set(self.names) - set(tensors))
        if missing or surplus:
            raise InvalidCheckpointError(
                f"the checkpoint of step {self.step} lacks {len(missing)} names {missing[:4]} and has {len(surplus)} "
                f"that are not wanted {surplus[:4]}",
                hint=_SAME,
            )


_SAME = "load it into the model and optimizer that it was saved from"


def _require_same(name: str, found: Tensor, tensor: Tensor) -> None:
    if (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
        raise InvalidCheckpointError(
            f"{name}: {found.dtype} {list(found.shape)} in the checkpoint, {tensor.dtype} {list(tensor.shape)} here",
            hint=_SAME,
        )


@contextmanager
def _reading(file: Path) -> Generator[None]:
    """Meanwhile ``file`` is read.

    Raises:
        InvalidCheckpointError: it cannot be.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError, ValueError, TypeError) as error:
        hint = "load an earlier step" if file.exists() else "load again: a newer one has replaced it"
        raise InvalidCheckpointError(f"{file} cannot be read: {error}", hint=hint) from error


def load(folder: str | PathLike[str], step: int | None = None) -> Checkpoint:
    """The checkpoint of ``step`` in ``folder``, or the one that was written last.

    Raises:
        InvalidCheckpointError: there is no whole one, or a file of it cannot be read.
        InvalidOptionError: ``folder`` is no path.
    """
    folder = path_of("folder", folder)
    if step is not None:
        require_count("step", step, least=0)
    with unchanged(folder):
        whole = stored(folder)
        chosen = [one for one in whole if step in (None, one.step)]
        if not chosen:
            raise _absent(folder, step, sorted(one.step for one in whole))
        return _open(chosen[-1])


def _absent(folder: Path, step: int | None, steps: list[int]) -> InvalidCheckpointError:
    wanted = "a whole checkpoint" if step is None else f"a whole checkpoint of step {step}"
    message, hint = f"{folder} does not hold {wanted}", f"whole ones are of steps {steps}"
    if not folder.is_dir():
        message += ": it is a file" if folder.exists() else ": there is no such folder"
    elif parts_in(folder):
        message, hint = f"{message}: it holds the parts of one", f"give the folder that it lies in, {folder.parent}"
    elif lacking := partial(folder, step):
        message, hint = f"{message}: {'; '.join(lacking)}", f"{hint}; each process writes its own part"
    elif not steps:
        message, hint = f"{message}, nor a part of one", "give the folder that save was given"
    return InvalidCheckpointError(message, hint=hint)


def _open(one: Stored) -> Checkpoint:
    files: dict[str, _File] = {}
    aliases: dict[str, str] = {}
    stamps: dict[str, Path] = {}
    for file in map(_File.of, one.files):
        with _reading(file.path):
            files |= dict.fromkeys(file.opened.keys(), file)
            header = file.opened.metadata() or {}
            aliases |= dict(json.loads(header.get(ALIASES, "{}")))
            stamps.setdefault(header.get(METADATA, "{}"), file.path)
    if len(stamps) > 1:
        first, second = (file.name for file in [*stamps.values()][:2])
        raise InvalidCheckpointError(
            f"{one.folder} has parts of several saves: {first} says other things of them than {second}",
            hint="load an earlier step; all parts of a save have the same metadata",
        )
    return Checkpoint(one.step, _told(one, stamps), one.written[0], files, aliases)


def _told(one: Stored, stamps: Mapping[str, Path]) -> dict[str, Any]:
    """The metadata of a checkpoint."""
    try:
        return dict(json.loads(next(iter(stamps))))
    except (ValueError, TypeError) as error:
        raise InvalidCheckpointError(f"{one.folder} cannot be read: {error}", hint="load an earlier step") from error


def merge(folder: Path | str, step: int | None = None, into: Path | str | None = None) -> Path:
    """Write the parts of a checkpoint as one part, into ``folder`` itself or another, and return its folder.

    It stays as old as it was among the others.

    Raises:
        InvalidCheckpointError: there is no whole one.
        InvalidOptionError: ``folder`` or ``into`` is no path.
        HetpartError: the disk refuses, or another process has saved or removed the checkpoint of that step meanwhile.
    """
    target = path_of("folder", folder) if into is None else path_of("into", into)
    checkpoint = load(folder, step)
    tensors = {name: checkpoint.tensor(name) for name in checkpoint.files}
    tensors |= {name: tensors[own] for name, own in checkpoint.aliases.items()}
    own = target.exists() and target.samefile(folder)
    return save(target, checkpoint.step, tensors, checkpoint.metadata, order=checkpoint.order, in_place=own)
