"""The external weight files that cut models refer to: which they are, and gathering them into one file."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, BinaryIO

import onnx

from hetpart.plan.fingerprint import describe_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hetpart.plan.model import WeightFile

GATHERED_FILE = "weights.bin"
_ALIGNMENT = 4096
"""Bytes; a tensor that starts on a page is mapped without its neighbour."""
_CHUNK = 16 * 2**20


def external_tensors(models: Iterable[onnx.ModelProto]) -> Iterator[onnx.TensorProto]:
    """Every initializer that refers to a file, subgraphs included."""
    for model in models:
        yield from _graph_tensors(model.graph)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from (tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL)
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _graph_tensors(body)


def reference_of(tensor: onnx.TensorProto) -> dict[str, str]:
    """``location``, ``offset`` and ``length`` of an external tensor, as written."""
    return {entry.key: entry.value for entry in tensor.external_data}


def weight_files(models: Iterable[onnx.ModelProto], folder: Path, *, full: bool = False) -> tuple[WeightFile, ...]:
    """The files that ``models`` refer to, as they are now."""
    names = sorted({reference_of(tensor)["location"] for tensor in external_tensors(models)})
    return tuple(describe_file(folder, name, full=full) for name in names)


def gather_weights(models: Iterable[onnx.ModelProto], source: Path, target: Path) -> None:
    """Copy the tensors that ``models`` refer to into one file in ``target``, each once, and refer to that."""
    placed: dict[tuple[str, str, str], tuple[int, int]] = {}
    with (target / GATHERED_FILE).open("wb") as out:
        for tensor in external_tensors(models):
            entries = reference_of(tensor)
            key = (entries["location"], entries.get("offset", "0"), entries.get("length", ""))
            if key not in placed:
                out.write(b"\0" * (-out.tell() % _ALIGNMENT))
                start = out.tell()
                _copy(source / key[0], int(key[1]), int(key[2] or -1), out)
                placed[key] = start, out.tell() - start
            offset, length = placed[key]
            _refer(tensor, offset, length)


def _refer(tensor: onnx.TensorProto, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", GATHERED_FILE), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _copy(path: Path, offset: int, length: int, out: BinaryIO) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = len(data) if length < 0 else offset + length
        out.writelines(data[start : min(start + _CHUNK, end)] for start in range(offset, end, _CHUNK))
