"""The external weight files that cut models refer to: which they are, and gathering them into one file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

import onnx

from hetpart.graph.types import dtype_name, nbytes_of
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
    """Every initializer and constant that refers to a file, subgraphs included."""
    for model in models:
        yield from _graph_tensors(model.graph)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in (*graph.initializer, *(attribute.t for attribute in attributes if attribute.HasField("t"))):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor
    for attribute in attributes:
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
    placed: dict[tuple[str, int, int], int] = {}
    with (target / GATHERED_FILE).open("wb") as out:
        for tensor in external_tensors(models):
            entries = reference_of(tensor)
            length = nbytes_of(dtype_name(tensor.data_type), tensor.dims)
            extent = entries["location"], int(entries.get("offset", "0")), length
            if extent not in placed:
                out.write(b"\0" * (-out.tell() % _ALIGNMENT))
                placed[extent] = out.tell()
                _copy(source / extent[0], extent[1], length, out)
            _refer(tensor, placed[extent], length)
        out.flush()
        os.fsync(out.fileno())


def _refer(tensor: onnx.TensorProto, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", GATHERED_FILE), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _copy(path: Path, offset: int, length: int, out: BinaryIO) -> None:
    with path.open("rb") as file:
        file.seek(offset)
        out.writelines(file.read(min(_CHUNK, length - start)) for start in range(0, length, _CHUNK))
