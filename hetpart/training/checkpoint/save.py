"""Checkpoints that are whole or not there: a kill at any moment leaves those that were whole before."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hetpart.errors import HetpartError
from hetpart.training.checkpoint.durable import held, is_held, locked, rename, sync
from hetpart.training.checkpoint.given import require_storable, stamp_from, step_number
from hetpart.training.checkpoint.layout import (
    INCOMPLETE,
    MERGED,
    ORDER,
    REMOVED,
    REPLACED,
    Part,
    is_whole,
    parts_in,
    passing,
    step_folder,
    stored,
)
from hetpart.training.limits import path_of, require_count

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
METADATA, ALIASES = "hetpart.metadata", "hetpart.aliases"
"""Keys of the header of a part: what the caller stored, and which names share another's tensor."""
WHOLE = Part()
_READ_AND_WRITE = 0o666
"""What of a folder's mode is a file's: whoever reads one may read the other, where safetensors has its owner alone."""
_ONE_BY_ONE = "save it again; a folder is one run's, whose processes write a part of each checkpoint"


def save(  # noqa: PLR0913 - what is written, and where among others
    folder: str | PathLike[str],
    step: int,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, JSON] | None = None,
    *,
    part: Part = WHOLE,
    keep_max: int | None = None,
    order: int | None = None,
    in_place: bool = False,
) -> Path:
    """Write ``tensors`` as the checkpoint of ``step``, or as one part of it, and return its folder.

    Tensors on a GPU are copied to the host; those in mapped files are written from there. Names that share one tensor
    store it once. Parts may come from several processes; ``metadata`` is the same in all of them, and tells the parts
    of this save from those that a killed one left behind. With ``keep_max`` the checkpoints written first go, and what
    killed saves left of earlier steps does anyway: each process writes one after the other. ``order`` is that of the
    checkpoint which this is another form of; without one it is the last. That one is still in ``folder`` where it is
    to be replaced ``in_place``.

    Raises:
        InvalidOptionError: ``keep_max`` is no count from 1, ``step`` no number from 0 on, a tensor none that has
            content in one piece, ``metadata`` no JSON, or ``folder`` no path.
        HetpartError: the disk refuses, another process took the part away, or what is to be replaced is not there any
            more; what was whole before still is.
    """
    if keep_max is not None:
        require_count("keep_max", keep_max)
    require_storable(tensors)
    number = step_number(step)
    home = step_folder(path_of("folder", folder), number)
    building = home.with_name(f"{home.name}{INCOMPLETE if order is None else MERGED}")
    stamp = stamp_from(metadata)
    try:
        building.mkdir(parents=True, exist_ok=True)
        with held(building):
            _write_part(building / part.file_name, tensors, stamp)
            with locked(home.parent):
                if in_place:
                    _require_current(building, number, order)
                if _is_complete(building, home, part, stamp):
                    _commit(building, home, _next(home.parent) if order is None else order)
                    _sweep(home.parent, _passed(number, part, order), keep_max)
    except (OSError, SafetensorError) as error:
        hint = _ONE_BY_ONE if home.parent.is_dir() and not building.is_dir() else "free or choose another disk"
        with suppress(OSError):
            building.rmdir()  # unless other parts are there
        raise HetpartError(f"{home} cannot be written: {error}", hint=hint) from error
    return home


def _write_part(path: Path, tensors: Mapping[str, Tensor], stamp: str) -> None:
    distinct, aliases = _without_aliases(tensors)
    header = {"format": "pt", METADATA: stamp, ALIASES: json.dumps(aliases)}
    temporary = path.with_suffix(".temporary")
    try:
        save_file(apart({name: tensor.detach().contiguous() for name, tensor in distinct.items()}), temporary, header)
        temporary.chmod(path.parent.stat().st_mode & _READ_AND_WRITE)
        sync(temporary)
    except (OSError, SafetensorError):
        if temporary.is_file():
            temporary.unlink()
        raise
    rename(temporary, path)


def _without_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors that are no other's, and the name of that other for those that are."""
    firsts: dict[tuple[object, ...], str] = {}
    aliases: dict[str, str] = {}
    for name, tensor in tensors.items():
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        first = firsts.setdefault(place, name) if tensor.numel() else name
        if first != name:
            aliases[name] = first
    return {name: tensor for name, tensor in tensors.items() if name not in aliases}, aliases


def apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Views of one storage can be written, unless they overlap: those are copied."""
    end = (None, 0)
    for name, tensor in sorted(tensors.items(), key=lambda item: (str(item[1].device), item[1].data_ptr())):
        if end[0] == tensor.device and tensor.data_ptr() < end[1]:
            tensors[name] = tensor.clone()
        end = (tensor.device, max(end[1], tensor.data_ptr() + tensor.nbytes))
    return tensors


def _is_complete(building: Path, home: Path, part: Part, stamp: str) -> bool:
    """Whether all parts of this save are there; what a killed one left goes."""
    if not (building / part.file_name).exists():
        if not (home / part.file_name).exists() or stamp_of(home / part.file_name) != stamp:
            raise FileNotFoundError(f"another process removed {part.file_name} from {building.name}")
        return False  # the process of another part was faster
    for other, file in parts_in(building).items():
        if other.count != part.count or stamp_of(file) != stamp:
            file.unlink()
    return is_whole(parts_in(building))


def _require_current(building: Path, step: int, order: int | None) -> None:
    """See that what ``building`` is another form of was not saved again meanwhile, nor removed."""
    if all((one.step, one.written[0]) != (step, order) for one in stored(building.parent)):
        shutil.rmtree(building, ignore_errors=True)
        raise HetpartError(
            f"the checkpoint of step {step} in {building.parent} is not the one that was merged any more: another "
            "process has saved it again, or removed it",
            hint="nothing has changed; merge again where it is still wanted",
        )


def _next(folder: Path) -> int:
    return 1 + max((one.written[0] for one in stored(folder)), default=0)


def _commit(building: Path, home: Path, order: int) -> None:
    """Give a whole checkpoint its name."""
    for leftover in {*building.iterdir()} - {*parts_in(building).values()}:
        if leftover.is_file():  # of a writer that was killed; safetensors has names of its own for them
            leftover.unlink()
    (building / ORDER).write_text(f"{order}\n")
    sync(building / ORDER)
    replaced = home.with_name(home.name + REPLACED)
    if home.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        rename(home, replaced)
    rename(building, home)
    shutil.rmtree(replaced, ignore_errors=True)


def stamp_of(file: Path) -> str:
    """The metadata of a part, as it stands in its header."""
    with safe_open(file, "pt") as opened:
        header: dict[str, str] = opened.metadata() or {}
    return header.get(METADATA, "")


def _passed(step: int, part: Part, order: int | None) -> float:
    """The step before which nobody saves any more once a checkpoint is whole: none where it is another's other form."""
    if order is not None:
        return -1
    return inf if part.count == 1 else step


def _sweep(parent: Path, end: float, keep_max: int | None) -> None:
    """Remove the checkpoints that are too many, and what killed writers left of steps before ``end``."""
    for folder, step in passing(parent).items():
        if _is_left(folder, passed=step < end):
            shutil.rmtree(folder, ignore_errors=True)  # one that merges may remove its own
    for old in stored(parent)[: -keep_max if keep_max else 0]:
        removed = old.folder.with_name(f"{old.folder.name}{REMOVED}")  # by a kill half of it would stay for ever
        rename(old.folder, removed)
        shutil.rmtree(removed, ignore_errors=True)


def _is_left(folder: Path, *, passed: bool) -> bool:
    """Whether nobody reads ``folder`` any more, nor writes to it once its step has ``passed``."""
    if folder.suffix == REPLACED:
        return folder.with_suffix("").is_dir()
    if folder.suffix == INCOMPLETE:
        return (passed or folder.name.endswith(MERGED)) and not is_held(folder)
    return True
