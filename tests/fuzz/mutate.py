"""Damage a model as a broken disk, a hostile sender or a careless script would: its bytes, or its fields."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Mutation = Callable[[Message, random.Random, "Pool"], None]

_HOSTILE_STRINGS = (
    "", "/", "..", "../../etc/passwd", "/dev/zero", "\0", "a" * 5000, "\x1b[2J", "💥", "-1", "1e9", "9" * 20,
    "ai.onnx.ml", "com.microsoft", "no.such.domain", "ai.onnx", "location", "length", "offset", "9" * 300,
    "2*" * 90 + "9", "((((" * 40, "weights.bin", ".", "Identity", "Loop", "If", "Scan", "Constant", "Shape", "Range",
)  # fmt: skip
_HOSTILE_INTS = (
    0, 1, 2, 3, 5, 7, 13, 16, -1, -2, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63),
)  # fmt: skip
_HOSTILE_BYTES = (b"", b"\xff" * 3, b"NOTSET", b"SAME_UPPER", b"linear")
_HOSTILE_FLOATS = (0.0, -1.0, 1e38, -1e-38, float("inf"), float("-inf"), float("nan"))
_INTEGER_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_LONGEST_LIST = 3000


class Pool:
    """What the model holds, so that damage can be made of its own parts: messages by type, and strings."""

    def __init__(self, model: Message) -> None:
        self.messages: dict[str, list[Message]] = {}
        self.strings: list[str] = []
        self._add(model)

    def _add(self, message: Message) -> None:
        self.messages.setdefault(message.DESCRIPTOR.full_name, []).append(message)
        for field, value in message.ListFields():
            values = value if field.is_repeated else [value]
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                for inner in values:
                    self._add(inner)
            elif field.type == FieldDescriptor.TYPE_STRING:
                self.strings.extend(values)

    def any_message(self, rng: random.Random) -> Message:
        """A kind of message first, then one of it, so that the many nodes do not hide the one graph."""
        return rng.choice(self.messages[rng.choice(sorted(self.messages))])


def mutated_fields(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """``model`` with one to four of its fields changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        pool = Pool(copy)
        message = pool.any_message(rng)
        rng.choice(_MUTATIONS)(message, rng, pool)
    return copy.SerializeToString()


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """``data`` with some bytes flipped, taken out, doubled, or cut off at the end."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        start = rng.randrange(len(damaged) + 1)
        rng.choice(_DAMAGES)(damaged, start, rng)
    return bytes(damaged)


def _flip(data: bytearray, start: int, rng: random.Random) -> None:
    if start < len(data):
        data[start] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, start: int, rng: random.Random) -> None:
    if start < len(data):
        data[start] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _take_out(data: bytearray, start: int, rng: random.Random) -> None:
    del data[start : start + rng.choice((1, 2, 8, 100))]


def _double(data: bytearray, start: int, rng: random.Random) -> None:
    data[start:start] = data[start : start + rng.choice((1, 2, 8, 100))]


def _cut_off(data: bytearray, start: int, rng: random.Random) -> None:
    if rng.random() < 0.3:
        del data[start:]


_DAMAGES = (_flip, _flip, _overwrite, _overwrite, _take_out, _double, _cut_off)


def _scalar(field: FieldDescriptor, rng: random.Random, pool: Pool) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if field.cpp_type in _INTEGER_LIMITS:
        low, high = _INTEGER_LIMITS[field.cpp_type]
        return min(max(rng.choice(_HOSTILE_INTS), low), high)
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(pool.strings if pool.strings and rng.random() < 0.7 else _HOSTILE_STRINGS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice(
            (b"", b"\xff" * 3, b"NOTSET", b"SAME_UPPER", b"linear", rng.randbytes(rng.choice((1, 8, 64))))
        )
    return rng.choice(_HOSTILE_FLOATS)


def _set_field(message: Message, rng: random.Random, pool: Pool) -> None:
    """Give a field, set or not, another value: a hostile scalar, or another message of its type."""
    _set(message, rng.choice(message.DESCRIPTOR.fields), rng, pool)


def _set_present(message: Message, rng: random.Random, pool: Pool) -> None:
    present = [field for field, _ in message.ListFields()]
    if present:
        _set(message, rng.choice(present), rng, pool)


def _set(message: Message, field: FieldDescriptor, rng: random.Random, pool: Pool) -> None:
    value = getattr(message, field.name)
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        _set_scalar(message, field, _scalar(field, rng, pool), rng)
        return
    others = pool.messages.get(field.message_type.full_name, [])
    chosen = rng.choice(others).SerializeToString() if others else b""
    if len(chosen) > 100_000:
        return
    (value.add() if field.is_repeated else value).ParseFromString(chosen)


def _set_scalar(message: Message, field: FieldDescriptor, wanted: Any, rng: random.Random) -> None:
    if not field.is_repeated:
        setattr(message, field.name, wanted)
        return
    values = getattr(message, field.name)
    if values and rng.random() < 0.7:
        values[rng.randrange(len(values))] = wanted
    else:
        values.extend([wanted] * rng.choice((1, 1, 2, _LONGEST_LIST)))


def _drop(message: Message, rng: random.Random, pool: Pool) -> None:
    """Clear a field, or take one item out of a list."""
    del pool
    present = [field for field, _ in message.ListFields()]
    if not present:
        return
    field = rng.choice(present)
    if field.is_repeated and rng.random() < 0.8:
        del getattr(message, field.name)[rng.randrange(len(getattr(message, field.name)))]
    else:
        message.ClearField(field.name)


def _repeat(message: Message, rng: random.Random, pool: Pool) -> None:
    """Double an item of a list, or turn the list round."""
    del pool
    lists = [field for field, _ in message.ListFields() if field.is_repeated]
    if not lists:
        return
    values = getattr(message, rng.choice(lists).name)
    items = list(values)
    order = [*items, rng.choice(items)] if rng.random() < 0.5 else items[::-1]
    copies = [type(item).FromString(item.SerializeToString()) if isinstance(item, Message) else item for item in order]
    del values[:]
    values.extend(copies)


_MUTATIONS: tuple[Mutation, ...] = (_set_present, _set_present, _set_present, _set_field, _drop, _repeat)
