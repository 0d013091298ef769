"""Read an ONNX file's structure without its weights.

An ``.onnx`` file may hold gigabytes of weights inside its protobuf message. Planning needs none of those bytes, so this
module walks the wire format over a memory map and rebuilds the message with every large tensor's elements replaced by a
reference to external data: this very file, at the offset where the bytes already lie. ONNX Runtime reads such
references like any other.

Wire format: https://protobuf.dev/programming-guides/encoding; field numbers: ``onnx.proto`` of the ONNX standard.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TENSOR_DATA_TYPE = 2
_TENSOR_EXTERNAL_DATA = 13
_TENSOR_DATA_LOCATION = 14
_ELEMENTS_IN_A_ROW = {9: None, 4: 1, 10: 11}
"""Fields whose payload is the elements one after another, as an external file has them: raw_data, and where they hold a
type of their own, float_data and double_data."""
_NODE_OP_TYPE = 4
_EXTERNAL = 1
_MODEL_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26})
"""Fields of ModelProto: what has others at its outermost was never one."""
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_WIDTH = {_FIXED64: 8, _FIXED32: 4}
_MOST_IN_A_BYTE = 0x7F

INLINE_LIMIT = 4096
"""Tensors up to this many bytes stay in the message: shape arithmetic reads them."""
_MOST_NESTED = 100
"""Protobuf's own limit on messages inside messages."""
_MOST_PIECES = 1000
"""A tensor of more fields than this, one per element, stays in the message: no exporter writes them."""


class WireError(ValueError):
    """The bytes are not a protobuf message; ``offset`` says where that shows.

    ``missing`` is how many bytes, at least, a file that was cut short lacks at its end.
    """

    def __init__(self, problem: str, offset: int, *, missing: int = 0) -> None:
        super().__init__(f"{problem} at byte {offset}")
        self.offset = offset
        self.missing = missing


class _Kind(Enum):
    """Messages in which a large tensor can lie."""

    MODEL = auto()
    GRAPH = auto()
    FUNCTION = auto()
    NODE = auto()
    CONSTANT = auto()
    """The node of a ``Constant``: of other operators' attributes ONNX Runtime reads no external data."""
    VALUE = auto()
    """An attribute of a ``Constant``."""
    BODY = auto()
    """An attribute of another node."""
    SPARSE = auto()
    TENSOR = auto()


_INSIDE: dict[_Kind, dict[int, _Kind]] = {
    _Kind.MODEL: {7: _Kind.GRAPH, 25: _Kind.FUNCTION},
    _Kind.GRAPH: {1: _Kind.NODE, 5: _Kind.TENSOR, 15: _Kind.SPARSE},
    _Kind.FUNCTION: {7: _Kind.NODE},
    _Kind.NODE: {5: _Kind.BODY},
    _Kind.CONSTANT: {5: _Kind.VALUE},
    _Kind.VALUE: {5: _Kind.TENSOR, 22: _Kind.SPARSE},
    _Kind.BODY: {6: _Kind.GRAPH, 11: _Kind.GRAPH},
    _Kind.SPARSE: {1: _Kind.TENSOR, 2: _Kind.TENSOR},
}
"""For every kind of message, which of its fields to look into, and as what."""


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    wire: int
    start: int
    """Where the tag begins."""
    body: int
    """Where the payload begins."""
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.body


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    data: mmap.mmap
    name: str


def skeleton(path: Path) -> bytes:
    """The ``ModelProto`` message of ``path`` with its large inline tensors made external references to ``path``.

    Raises:
        WireError: the file is truncated or is not a protobuf message.
    """
    if path.stat().st_size == 0:
        raise WireError("the file is empty", 0)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        whole = _Field(0, _DELIMITED, 0, 0, len(data))
        return b"".join(_message(_File(data, path.name), whole, _Kind.MODEL, 0))


def _message(file: _File, message: _Field, kind: _Kind, depth: int) -> Iterator[bytes]:
    """The fields of ``message``, large tensors inside replaced."""
    if depth > _MOST_NESTED:
        raise WireError(f"messages are nested more than {_MOST_NESTED} deep", message.start)
    if kind is _Kind.NODE and _op_type(file, message) == b"Constant":
        kind = _Kind.CONSTANT
    inside, kept = _INSIDE[kind], message.body
    for field in _fields(file.data, message, INLINE_LIMIT):
        inner = inside.get(field.number)
        if inner is None or field.wire != _DELIMITED:
            continue
        yield file.data[kept : field.start]
        kept = field.end
        if inner is _Kind.TENSOR:
            yield _delimited(field.number, _tensor(file, field))
        else:
            yield _delimited(field.number, b"".join(_message(file, field, inner, depth + 1)))
    yield file.data[kept : message.end]


def _op_type(file: _File, node: _Field) -> bytes:
    named = (field for field in _fields(file.data, node) if field.number == _NODE_OP_TYPE)
    return b"".join(file.data[field.body : min(field.end, field.body + 16)] for field in named)


def _tensor(file: _File, tensor: _Field) -> bytes:
    """The tensor, its elements replaced where they are many and lie in one row."""
    pieces: list[_Field] = []
    for field in _fields(file.data, tensor):
        pieces.append(field)
        if len(pieces) > _MOST_PIECES:
            return file.data[tensor.body : tensor.end]
    rows = [field for field in pieces if field.number in _ELEMENTS_IN_A_ROW]
    if len(rows) != 1 or not _is_row(rows[0], _number(file, pieces, _TENSOR_DATA_TYPE)):
        return file.data[tensor.body : tensor.end]
    if _number(file, pieces, _TENSOR_DATA_LOCATION) == _EXTERNAL:
        return file.data[tensor.body : tensor.end]
    others = [field for field in pieces if field.number not in (_TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION)]
    return b"".join(
        _reference(file.name, field) if field is rows[0] else file.data[field.start : field.end] for field in others
    )


def _number(file: _File, pieces: list[_Field], number: int) -> int | None:
    """The value of a field that holds a number; of several, the last is meant."""
    found = [field for field in pieces if field.number == number and field.wire == _VARINT]
    return _read_varint(file.data, found[-1].body, found[-1].end)[0] if found else None


def _is_row(field: _Field, dtype: int | None) -> bool:
    return (
        field.wire == _DELIMITED and field.nbytes > INLINE_LIMIT and _ELEMENTS_IN_A_ROW[field.number] in (None, dtype)
    )


def _reference(name: str, elements: _Field) -> bytes:
    entries = (("location", name), ("offset", str(elements.body)), ("length", str(elements.nbytes)))
    encoded = (
        _delimited(_TENSOR_EXTERNAL_DATA, _delimited(1, key.encode()) + _delimited(2, value.encode()))
        for key, value in entries
    )
    return b"".join(encoded) + _varint(_TENSOR_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL)


def _fields(data: mmap.mmap, message: _Field, over: int = -1) -> Iterator[_Field]:
    """The fields of more than ``over`` bytes; all are read. Tags and lengths are mostly a byte: those cost no call."""
    position, end = message.body, message.end
    while position < end:
        tag, body = data[position], position + 1
        if tag > _MOST_IN_A_BYTE:
            tag, body = _read_varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError("field number 0", position)
        if wire == _DELIMITED and body < end and data[body] <= _MOST_IN_A_BYTE:
            body, stop = body + 1, body + 1 + data[body]
        else:
            body, stop = _payload(data, wire, body, end)
        if stop > end:
            missing = stop - end if message.number == 0 and number in _MODEL_FIELDS else 0
            raise WireError(f"field {number} needs {stop - end} bytes more than there are", position, missing=missing)
        if stop - body > over:
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
