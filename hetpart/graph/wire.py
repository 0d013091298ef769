"""Read an ONNX file's structure without its weights.

An ``.onnx`` file may hold gigabytes of weights inside its protobuf message. Planning needs none of those bytes, so this
module walks the wire format over a memory map and rebuilds the message with every large ``raw_data`` replaced by a
reference to external data: this very file, at the offset where the bytes already lie. ONNX Runtime reads such
references like any other.

Wire format: https://protobuf.dev/programming-guides/encoding; field numbers: ``onnx.proto`` of the ONNX standard.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9
_TENSOR_EXTERNAL_DATA = 13
_TENSOR_DATA_LOCATION = 14
_EXTERNAL = 1
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_WIDTH = {_FIXED64: 8, _FIXED32: 4}

INLINE_LIMIT = 4096
"""Tensors up to this many bytes stay in the message: shape arithmetic reads them."""


class WireError(ValueError):
    """The bytes are not a protobuf message; ``offset`` says where that shows."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(f"{problem} at byte {offset}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    wire: int
    start: int
    """Where the tag begins."""
    body: int
    """Where the payload begins."""
    end: int


def skeleton(path: Path) -> bytes:
    """The ``ModelProto`` message of ``path`` with its large inline tensors made external references to ``path``.

    Raises:
        WireError: the file is truncated or is not a protobuf message.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return b"".join(_model(data, path.name))


def _model(data: mmap.mmap, name: str) -> Iterator[bytes]:
    for field in _fields(data, 0, len(data)):
        if field.number == _MODEL_GRAPH and field.wire == _DELIMITED:
            yield _delimited(_MODEL_GRAPH, b"".join(_graph(data, field, name)))
        else:
            yield data[field.start : field.end]


def _graph(data: mmap.mmap, graph: _Field, name: str) -> Iterator[bytes]:
    for field in _fields(data, graph.body, graph.end):
        large = field.end - field.body > INLINE_LIMIT
        if large and field.number == _GRAPH_INITIALIZER and field.wire == _DELIMITED:
            yield _delimited(_GRAPH_INITIALIZER, b"".join(_tensor(data, field, name)))
        else:
            yield data[field.start : field.end]


def _tensor(data: mmap.mmap, tensor: _Field, name: str) -> Iterator[bytes]:
    for field in _fields(data, tensor.body, tensor.end):
        if field.number == _TENSOR_RAW_DATA and field.wire == _DELIMITED and field.end - field.body > INLINE_LIMIT:
            yield _reference(name, field.body, field.end - field.body)
        else:
            yield data[field.start : field.end]


def _reference(name: str, offset: int, length: int) -> bytes:
    entries = (("location", name), ("offset", str(offset)), ("length", str(length)))
    encoded = (
        _delimited(_TENSOR_EXTERNAL_DATA, _delimited(1, key.encode()) + _delimited(2, value.encode()))
        for key, value in entries
    )
    return b"".join(encoded) + _varint(_TENSOR_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL)


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    position = start
    while position < end:
        tag, body = _read_varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError("field number 0", position)
        body, stop = _payload(data, wire, body, end)
        if stop > end:
            raise WireError(f"field {number} needs {stop - end} bytes more than there are", position)
        yield _Field(number, wire, position, body, stop)
        position = stop


def _payload(data: mmap.mmap, wire: int, body: int, end: int) -> tuple[int, int]:
    if wire == _DELIMITED:
        length, body = _read_varint(data, body, end)
        return body, body + length
    if wire == _VARINT:
        return body, _read_varint(data, body, end)[1]
    if wire in _FIXED_WIDTH:
        return body, body + _FIXED_WIDTH[wire]
    raise WireError(f"wire type {wire}", body)


def _read_varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    result = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise WireError("unfinished number", position)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _delimited(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | _DELIMITED) + _varint(len(payload)) + payload
