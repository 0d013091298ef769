"""Tensors in files that are mapped into memory: larger than it, and shared by every process that opens them."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable, Sequence
from operator import index
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.training.embedding.table import Table
from hetpart.training.optimizers import RowOptimizer
from hetpart.training.optimizers.blocks import flat_blocks


def file_of(tensor: Tensor) -> Path | None:
    """The file that ``tensor`` lies in, or is; ``None`` for what is memory.

    Raises:
        InvalidOptionError: it lies there in pieces, so that what uses it would have a copy.
    """
    file = tensor.untyped_storage().filename
    if file and not tensor.is_contiguous():
        raise InvalidOptionError(
            f"a tensor of {list(tensor.shape)} lies in {file} in pieces, {tensor.stride()} elements apart",
            hint="give whole rows that follow each other, table[first:last], or clone() it into memory",
        )
    return Path(file) if file else None


def beside(tensor: Tensor, state: str) -> Path:
    """The file for what an optimizer keeps of a tensor in a file; of a part of it, named by its first element too."""
    whole = tensor.nbytes == tensor.untyped_storage().nbytes()
    return Path(f"{file_of(tensor)}.{state}" if whole else f"{file_of(tensor)}.{tensor.storage_offset()}.{state}")


def mapped(path: Path | str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, fill: float = 0.0) -> Tensor:
    """The file's content as a contiguous tensor; what is written to it is in the file.

    A file that is not there is made of ``fill``; zeros take no room on a disk that knows sparse files. It has its name
    once it is whole.
    It holds numbers alone: of one that is there only the size can be compared, so that [50, 6] is read as [60, 5] where
    these are asked for.

    Raises:
        InvalidOptionError: a file is there whose size is another, or a size is no number from 0 on.
        HetpartError: the file cannot be made or opened.
    """
    return _mapped(Path(path), shape, dtype, (lambda tensor: tensor.fill_(fill)) if fill else None)


def _mapped(path: Path, shape: Sequence[int], dtype: torch.dtype, fill: Callable[[Tensor], object] | None) -> Tensor:
    """As ``mapped``; ``fill`` writes what a new file holds."""
    sizes = _sizes(shape)
    nbytes = math.prod(sizes) * dtype.itemsize
    try:
        if not path.exists():
            _make(path, sizes, dtype, fill)
        if path.stat().st_size != nbytes:
            raise InvalidOptionError(
                f"{path} holds {path.stat().st_size} bytes, where {nbytes} are asked for",
                hint="remove it, or give the shape and dtype that it was made with",
            )
        return _opened(path, sizes, dtype)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise HetpartError(
            f"{path}, a table of {nbytes} bytes: {why}",
            hint="a mapped table needs a folder to write to, on a disk that takes a file of its size",
        ) from error


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(index(size) for size in shape)
    except TypeError:
        sizes = (-1,)
    if min(sizes, default=0) < 0:
        raise InvalidOptionError(
            f"a table of shape {shape!r}", hint="a shape is of whole numbers, from 0 on: (rows, width)"
        )
    return sizes


def _opened(path: Path, sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.from_file(str(path.resolve()), shared=True, size=math.prod(sizes), dtype=dtype).view(sizes)


def _make(path: Path, sizes: tuple[int, ...], dtype: torch.dtype, fill: Callable[[Tensor], object] | None) -> None:
    """Fill a file beside ``path``, and rename it: what ends on the way leaves nothing that is taken for a table.

    One process does so at a time. The system lets go of the lock of one that dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    making = path.with_name(f"{path.name}.making")
    with making.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return  # another process was faster, and this is its file
        try:
            file.truncate(0)  # of one that was killed
            file.truncate(math.prod(sizes) * dtype.itemsize)
            new = _opened(making, sizes, dtype)
            if fill is not None:
                fill(new)
                flush(making)
            making.rename(path)
        except BaseException:
            making.unlink(missing_ok=True)
            raise


def flush(path: Path) -> None:
    """Have the disk hold what was written to the mapped file: the kernel writes back a file's pages, mapped or not."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def mapped_table(path: Path | str, shape: tuple[int, int], optimizer: RowOptimizer, *, std: float, seed: int) -> Table:
    """A table whose weights are the file ``path``, and whose state are files beside it: ``<path>.<state>``.

    New weights are normal with deviation ``std``; ``std`` 0 leaves a sparse file. Of files that are there
    only the size is compared, as by ``mapped``: keep the shape with what else describes the model.
    """
    weight = _mapped(Path(path), shape, torch.float32, (lambda new: fill_normal_(new, std, seed)) if std else None)
    names = optimizer.state_names
    return Table(
        weight,
        optimizer,
        {name: mapped(Path(f"{path}.{name}"), shape, fill=optimizer.initial(name)) for name in names},
    )


def fill_normal_(tensor: Tensor, std: float, seed: int) -> Tensor:
    """Seeded normal numbers, block by block: a file larger than memory is written once, from front to end."""
    generator = torch.Generator().manual_seed(seed)
    for (block,) in flat_blocks(tensor):
        block.normal_(0.0, std, generator=generator)
    return tensor
