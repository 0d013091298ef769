# pyright: reportUnknownMemberType=false
"""MNIST in its IDX files and CIFAR in its binary version, as their authors publish them."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.training.limits import path_of

Split: TypeAlias = Literal["train", "test"]
Known = TypeVar("Known")

_IDX_BYTES = 0x08
_MNIST = {"train": "train", "test": "t10k"}
_KINDS = (("images", "idx3"), ("labels", "idx1"))
_CIFAR = {
    10: {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]},
    100: {"train": ["train.bin"], "test": ["test.bin"]},
}
_PIXELS = 3 * 32 * 32
_DIGITS = 10
_DIGIT = (28, 28)


def mnist(folder: Path | str, split: Split = "train") -> tuple[Tensor, Tensor]:
    """Images float32 [N, 1, 28, 28] from 0 to 1, and labels int64 [N], from ``train-images-idx3-ubyte`` or its ``.gz``.

    ``train-images.idx3-ubyte`` will do, too.

    Raises:
        HetpartError: a file is not there, is no IDX file of bytes, holds other than images of 28 x 28 with a label
            each, or has a label that is no digit.
        InvalidOptionError: there is no such split, or ``folder`` is no path.
    """
    begin = _one_of(_MNIST, "split", split)
    files = [_named(path_of("folder", folder), f"{begin}-{what}", f"{kind}-ubyte") for what, kind in _KINDS]
    images, labels = map(read_idx, files)
    if images.shape[1:] != _DIGIT or labels.shape != images.shape[:1]:
        raise HetpartError(
            f"{files[0]} holds {list(images.shape)} bytes and {files[1]} {list(labels.shape)}",
            hint="the first holds images of 28 x 28, the second a label for each",
        )
    _require_classes(files[1], labels, _DIGITS, "take MNIST's own labels, of ten digits")
    return torch.from_numpy(images).unsqueeze(1) / 255, torch.from_numpy(labels).long()


def _one_of(known: Mapping[Any, Known], name: str, value: Any) -> Known:
    if not any(type(value) is type(key) and value == key for key in known):
        raise InvalidOptionError(f"{name} cannot be {value!r}", hint=f"it is {' or '.join(map(repr, known))}")
    return known[value]


def _named(folder: Path, what: str, kind: str) -> Path:
    """The one of the names that a file goes by which is there, else the first: some copies have a dot for the dash."""
    names = [folder / f"{what}{mark}{kind}{packed}" for mark in "-." for packed in ("", ".gz")]
    return next((path for path in names if path.exists()), names[0])


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes: two zeros, the type, the number of dimensions, each of them big-endian, the content."""
    raw = _content(path)
    rank = raw[3] if len(raw) > 3 else 0
    shape = tuple(int(n) for n in np.frombuffer(raw[4 : 4 + 4 * rank], ">u4")) if len(raw) >= 4 + 4 * rank else ()
    if raw[:3] != bytes((0, 0, _IDX_BYTES)) or len(raw) != 4 + 4 * rank + math.prod(shape):
        raise HetpartError(f"{path} is no IDX file of bytes, or is cut off", hint="unpack it anew")
    return np.frombuffer(bytearray(raw[4 + 4 * rank :]), np.uint8).reshape(shape)


def cifar(folder: Path | str, split: Split = "train", classes: Literal[10, 100] = 10) -> tuple[Tensor, Tensor]:
    """Images float32 [N, 3, 32, 32] from 0 to 1, and labels int64 [N], from ``data_batch_1.bin`` and its like.

    Of CIFAR-100 the label is the fine one.

    Raises:
        HetpartError: a file is not there, is cut off, or has a label that is none of the classes.
        InvalidOptionError: there is no such split, no such number of classes, or ``folder`` is no path.
    """
    names, head = _one_of(_one_of(_CIFAR, "classes", classes), "split", split), 1 if classes == 10 else 2
    files = [path_of("folder", folder) / name for name in names]
    parts = {file: _records(file, head + _PIXELS) for file in files}
    for path, part in parts.items():
        hint = "take the binary version of the set that classes= names"
        _require_classes(path, part[:, head - 1], classes, hint)
    records = np.concatenate([*parts.values()])
    images = torch.from_numpy(records[:, head:].reshape(-1, 3, 32, 32))
    return images / 255, torch.from_numpy(records[:, head - 1].astype(np.int64))


def _require_classes(path: Path, labels: NDArray[np.uint8], classes: int, hint: str) -> None:
    odd = np.flatnonzero(labels >= classes)
    if len(odd):
        label, at = labels[odd[0]], odd[0] + 1
        raise HetpartError(
            f"{path} has the label {label} for its image {at}, and there are {classes} classes", hint=hint
        )


def _records(path: Path, nbytes: int) -> NDArray[np.uint8]:
    raw = _content(path)
    if not raw or len(raw) % nbytes:
        raise HetpartError(
            f"{path} holds {len(raw)} bytes, which is no number of images of {nbytes}", hint="take the binary version"
        )
    return np.frombuffer(bytearray(raw), np.uint8).reshape(-1, nbytes)


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise HetpartError(
            f"{path} cannot be read: {why}",
            hint="the files are the user's own to get",
        ) from error
