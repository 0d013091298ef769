"""What people type as options, read into records: shapes, links and pins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from hetpart.devices import Machine
from hetpart.errors import InvalidOptionError
from hetpart.units import OPEN, parse_rate

LONGEST_NUMBER = 40
"""Characters of a number: a longer one takes Python long to read."""
_DEVICE_ALIASES = {"cuda": "cuda:0", "host": "cpu"}
DEVICE_PATTERN = re.compile(r"[a-z][a-z0-9_-]*(:\d{1,4})?")
_SHARE_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*%", re.ASCII)
_COUNT_PATTERN = re.compile(r"[0-9]{1,18}")
_ONE_SHAPE = re.compile(r"(?:\([^()=]*\)|[^,])+")
"""Text between commas, but for those in a dimension's own name: ``max(a, b)=8``."""
_SHAPE_HINT = "write --shape batch=8,seq=128, or past=? for a size that is another in every run"
_PIN_HINT = "write --pin 'encoder.layer.0.*=cpu', --pin op:Gather=cpu or --pin node:/fc/MatMul=cuda:0"
ShapeOption = Mapping[str, int | str] | Sequence[str] | str | None
PinOption = Mapping[str, Any] | Sequence[str] | str | None
"""A mapping has devices by pattern, PyTorch's own or their names."""


class PinKind(StrEnum):
    """What a pin's pattern is compared with."""

    ANY = "any"
    """Node name, module scope or op type."""
    OP = "op"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class OpPattern:
    """Ops by name, module or type."""

    kind: PinKind
    pattern: str
    text: str


@dataclass(frozen=True, slots=True)
class Pin:
    """Every op that ``pattern`` matches goes to ``device``."""

    kind: PinKind
    pattern: str
    device: str
    text: str


def device_name(text: str) -> str:
    """The device's own name: ``cuda`` is ``cuda:0`` and ``host`` is ``cpu``."""
    name = text.strip().lower()
    return _DEVICE_ALIASES.get(name, name)


def known_device(name: str, machine: Machine, text: str) -> str:
    """``name``, where ``machine`` has such a device.

    Raises:
        InvalidOptionError: it has none; ``text`` is the option that asked for it.
    """
    names = [device.name for device in machine.devices]
    if name in names:
        return name
    raise InvalidOptionError(
        f"{text!r} names the device {name!r}, which the machine {machine.name!r} does not have",
        hint=f"its devices are {', '.join(names)}",
    )


def parse_share(text: str) -> Fraction | None:
    """``80%`` as a fraction; ``None`` where ``text`` is no percentage."""
    share = _SHARE_PATTERN.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    return None if share is None else Fraction(share[1]) / 100


def parse_link(link: str | float | None, *, emulate: bool) -> float | None:
    """Bytes per second of an emulated link, from ``12GB/s`` or a number.

    Raises:
        InvalidOptionError: it is no rate, or nothing is emulated.
    """
    if link is None:
        return None
    if not emulate:
        raise InvalidOptionError(
            f"the link of {link} is emulated, and the devices are not",
            hint="add --emulate (emulate=True), or leave out --emulate-link",
        )
    rate = float(link) if isinstance(link, int | float) else parse_rate(link)
    if not 0 < rate < float("inf"):
        raise InvalidOptionError(f"a link of {link} copies nothing", hint="write --emulate-link 12GB/s")
    return rate


def parse_shapes(shapes: ShapeOption) -> dict[str, int]:
    """Numbers for symbolic dimensions: ``batch=8,seq=128``, several such texts, or a mapping; by name, sorted.

    ``?`` is ``OPEN``.

    Raises:
        InvalidOptionError: a text is not ``name=number``, a number is negative, or a name has two numbers.
    """
    bound: dict[str, int] = {}
    for name, size in _bindings(shapes):
        if bound.setdefault(name, size) != size:
            raise InvalidOptionError(f"the dimension {name!r} is bound to {bound[name]} and to {size}", hint="keep one")
    return dict(sorted(bound.items()))


def _bindings(shapes: ShapeOption) -> list[tuple[str, int]]:
    if isinstance(shapes, Mapping):
        return [(name, _size_of(str(size), f"{name}={size}")) for name, size in shapes.items()]
    texts = [shapes] if isinstance(shapes, str) else shapes or []
    return [_binding(part.strip()) for text in texts for part in _ONE_SHAPE.findall(text) if part.strip()]


def _binding(text: str) -> tuple[str, int]:
    name, _, size = (part.strip() for part in text.rpartition("="))
    if not name:
        raise InvalidOptionError(f"the shape {text!r} is not name=number", hint=_SHAPE_HINT)
    return name, _size_of(size, text)


def _size_of(size: str, text: str) -> int:
    if size == "?":
        return OPEN
    if not _COUNT_PATTERN.fullmatch(size):
        raise InvalidOptionError(f"the shape {text!r} does not end in a whole number", hint=_SHAPE_HINT)
    return int(size)


def parse_pins(texts: PinOption) -> tuple[Pin, ...]:
    """Pins in the order given, such as ``encoder.layer.0.*=cpu``, ``op:Gather=cpu`` or ``node:/fc/MatMul=cuda:0``.

    A mapping gives the device of each pattern.

    Raises:
        InvalidOptionError: a text has no pattern, or no device after its last ``=``.
    """
    if isinstance(texts, Mapping):
        texts = [f"{pattern}={device}" for pattern, device in texts.items()]
    return tuple(_pin(text) for text in ([texts] if isinstance(texts, str) else texts or ()))


def _pin(text: str) -> Pin:
    target, _, device = text.rpartition("=")
    pattern = parse_pattern(target)
    name = device_name(device)
    if not pattern.pattern or not DEVICE_PATTERN.fullmatch(name):
        raise InvalidOptionError(f"the pin {text!r} is not pattern=device", hint=_PIN_HINT)
    return Pin(pattern.kind, pattern.pattern, name, text)


def parse_pattern(text: str) -> OpPattern:
    """What a pattern such as ``encoder.layer.0.*``, ``op:Gather`` or ``node:/fc/MatMul`` is compared with."""
    prefix, colon, rest = text.partition(":")
    kind = PinKind(prefix) if colon and prefix in (PinKind.OP, PinKind.NODE) else PinKind.ANY
    return OpPattern(kind, (text if kind is PinKind.ANY else rest).strip(), text)
