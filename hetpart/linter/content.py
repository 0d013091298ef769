# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What weights hold, read in samples first and never more than a limit: files of 100 GB cost milliseconds."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import numpy_helper

from hetpart.graph.types import dtype_name, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.graph.load import LoadedModel

LARGE_BYTES = 2**20
"""Weights from this size on are compared with each other."""
SAMPLE_BYTES, SAMPLES = 4096, 8
MOST_READ_BYTES = 2**31
"""Of weights that agree in their samples, read to see whether they are the same."""
SMALL_BYTES = 2**26
"""Weights up to this size are read whole by rules that look at numbers."""
_FORMS_KEPT = 4096


def same_content(loaded: LoadedModel) -> Iterator[Sequence[onnx.TensorProto]]:
    """Initializers of a megabyte and more that hold the same bytes, group by group."""
    large = [tensor for tensor in loaded.proto.graph.initializer if _is_large(tensor)]
    left = MOST_READ_BYTES
    for alike in _groups(large, lambda tensor: (tensor.data_type, tuple(tensor.dims))):
        for sampled in _groups(alike, lambda tensor: _sample(tensor, loaded)):
            left -= sum(map(_nbytes, sampled))
            if left < 0:
                return
            yield from _groups(sampled, lambda tensor: _digest(tensor, loaded))


def _groups(
    tensors: Iterable[onnx.TensorProto], key: Callable[[onnx.TensorProto], Hashable | None]
) -> list[list[onnx.TensorProto]]:
    """Those that agree in ``key``, two and more; ``None`` agrees with nothing."""
    found: dict[Hashable, list[onnx.TensorProto]] = {}
    for tensor in tensors:
        if (known := key(tensor)) is not None:
            found.setdefault(known, []).append(tensor)
    return [group for group in found.values() if len(group) > 1]


def _is_large(tensor: onnx.TensorProto) -> bool:
    """Its bytes are looked at before its shape: of a million small ones, that is quicker."""
    lies_here = tensor.data_location != onnx.TensorProto.EXTERNAL
    return not (lies_here and len(tensor.raw_data) < LARGE_BYTES) and _nbytes(tensor) >= LARGE_BYTES


def _nbytes(tensor: onnx.TensorProto) -> int:
    return _nbytes_of(tensor.data_type, tuple(tensor.dims))


@lru_cache(_FORMS_KEPT)
def _nbytes_of(data_type: int, dims: tuple[int, ...]) -> int:
    """Of a million tensors, most are of few forms."""
    return nbytes_of(dtype_name(data_type), dims)


def _sample(tensor: onnx.TensorProto, loaded: LoadedModel) -> bytes | None:
    content = raw_bytes(tensor, loaded)
    if content is None:
        return None
    starts = np.linspace(0, max(0, len(content) - SAMPLE_BYTES), SAMPLES, dtype=np.int64)
    return b"".join(content[start : start + SAMPLE_BYTES].tobytes() for start in starts.tolist())


def _digest(tensor: onnx.TensorProto, loaded: LoadedModel) -> bytes | None:
    content = raw_bytes(tensor, loaded)
    return None if content is None else hashlib.sha256(content.data).digest()


def raw_bytes(tensor: onnx.TensorProto, loaded: LoadedModel) -> NDArray[np.uint8] | None:
    """The tensor's bytes, mapped into memory where they lie in a file; ``None`` where they cannot be had."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return np.frombuffer(tensor.raw_data, np.uint8) if tensor.HasField("raw_data") else None
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if loaded.folder is None or not _nbytes(tensor):
        return None
    try:
        start = int(entries.get("offset", "0"))
        return np.memmap(loaded.folder / entries["location"], np.uint8, "r", start, (_nbytes(tensor),))
    except (OSError, ValueError, KeyError):
        return None  # a rule of its own speaks of files that are not there


def numbers(tensor: onnx.TensorProto, loaded: LoadedModel) -> NDArray[np.float64] | None:
    """The tensor's elements; ``None`` where it is large, holds no numbers, or cannot be read."""
    if _nbytes(tensor) > SMALL_BYTES:
        return None
    whole = onnx.TensorProto()
    whole.CopyFrom(tensor)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        content = raw_bytes(tensor, loaded)
        if content is None:
            return None
        whole.ClearField("external_data")
        whole.data_location = onnx.TensorProto.DEFAULT
        whole.raw_data = content.tobytes()
    try:
        found = numpy_helper.to_array(whole)
    except (ValueError, TypeError):
        return None
    return np.asarray(found, np.float64) if found.dtype.kind in "fiub" or found.dtype.name == "bfloat16" else None
