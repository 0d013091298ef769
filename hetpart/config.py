"""What people type as options, read into records: budgets, shapes and pins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hetpart.devices import Device, Machine
from hetpart.errors import InvalidOptionError
from hetpart.units import format_bytes, parse_bytes, parse_rate

_LONGEST_NUMBER = 40
_DEVICE_ALIASES = {"cuda": "cuda:0", "host": "cpu"}
_DEVICE_PATTERN = re.compile(r"[a-z][a-z0-9_-]*(:\d{1,4})?")
_SHARE_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*%", re.ASCII)
_COUNT_PATTERN = re.compile(r"[0-9]{1,18}")
_ONE_SHAPE = re.compile(r"(?:\([^()=]*\)|[^,])+")
"""Text between commas, but for those in a dimension's own name: ``max(a, b)=8``."""
_AUTO_SHARE = Fraction(95, 100)
_BUDGET_HINT = "write --budget 16GB, --budget 80%, --budget auto, --budget 0 or --budget cuda:0=16GB"
_SHAPE_HINT = "write --shape batch=8,seq=128"
_PIN_HINT = "write --pin 'encoder.layer.0.*=cpu', --pin op:Gather=cpu or --pin node:/fc/MatMul=cuda:0"


class Auto(StrEnum):
    """A budget that hetpart finds by itself."""

    AUTO = "auto"


Amount = int | Fraction | Auto
"""Bytes, a share of the device's memory, or what is free on it."""
BudgetOption = Mapping[str, str | int | float] | Sequence[str | int | float] | str | int | float | None
"""What ``budget=`` may be."""
ShapeOption = Mapping[str, int] | Sequence[str] | str | None
PinOption = Mapping[str, str] | Sequence[str] | str | None
FreeBytes = Callable[[str], int | None]
"""Free memory of the device with this name; ``None`` where no such device answers."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as it was asked for. Without a ``device`` it is of every accelerator that has none of its own."""

    device: str | None
    amount: Amount
    text: str


@dataclass(frozen=True, slots=True)
class ResolvedBudgets:
    """Bytes that may be used of every device with a budget, and what the user should know about them."""

    nbytes: dict[str, int]
    notes: tuple[str, ...]


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


def parse_budget(texts: BudgetOption) -> tuple[Budget, ...]:
    """Budgets such as ``16GB``, ``80%``, ``auto``, ``0`` or ``cuda:0=16GB``, one per device; ``None`` is no budget.

    A mapping gives a device's budget by its name.

    Raises:
        InvalidOptionError: a text is not a budget, is negative, or contradicts another one.
    """
    budgets: dict[str | None, Budget] = {}
    for budget in map(_budget, _listed(texts)):
        earlier = budgets.setdefault(budget.device, budget)
        if earlier.amount != budget.amount:
            raise InvalidOptionError(
                f"the budgets {earlier.text!r} and {budget.text!r} contradict each other",
                hint="give one budget for each device",
            )
    return tuple(budgets.values())


def _listed(texts: BudgetOption) -> Sequence[str | float]:
    if texts is None:
        return ()
    if isinstance(texts, Mapping):
        return [f"{device}={amount}" for device, amount in texts.items()]
    return (texts,) if isinstance(texts, str | int | float) else texts


def _budget(given: str | float) -> Budget:
    text = f"{given:.0f}" if isinstance(given, float) else str(given).strip()
    device, equals, amount = text.rpartition("=")
    if not equals:
        return Budget(None, _amount(amount, text), text)
    name = device_name(device)
    if not _DEVICE_PATTERN.fullmatch(name):
        raise InvalidOptionError(f"the budget {text!r} names no device before its '='", hint=_BUDGET_HINT)
    if not amount.strip():
        raise InvalidOptionError(f"the budget {text!r} gives {name} no size", hint=_BUDGET_HINT)
    return Budget(name, _amount(amount.strip(), text), text)


def parse_share(text: str) -> Fraction | None:
    """``80%`` as a fraction; ``None`` where ``text`` is no percentage."""
    share = _SHARE_PATTERN.fullmatch(text.strip()) if len(text) <= _LONGEST_NUMBER else None
    return None if share is None else Fraction(share[1]) / 100


def _amount(amount: str, text: str) -> Amount:
    if amount.lower() == Auto.AUTO:
        return Auto.AUTO
    if amount.startswith("-"):
        raise InvalidOptionError(f"the budget {text!r} is negative", hint=_BUDGET_HINT)
    if len(amount) > _LONGEST_NUMBER:
        raise InvalidOptionError(f"the budget {text[:_LONGEST_NUMBER]!r}… is not a size", hint=_BUDGET_HINT)
    share = parse_share(amount)
    if share is not None and share > 1:
        raise InvalidOptionError(f"the budget {text!r} is more than the device's memory", hint="100% is all of it")
    return _size(amount, text) if share is None else share


def _size(amount: str, text: str) -> int:
    try:
        return parse_bytes(amount)
    except InvalidOptionError as error:
        why = error.message.rpartition(" is ")[2]
        raise InvalidOptionError(f"the budget {text!r} is {why}", hint=_BUDGET_HINT) from None


def resolve_budgets(
    budgets: Iterable[Budget], machine: Machine, free_bytes: FreeBytes | int | None = None
) -> ResolvedBudgets:
    """Bytes for every accelerator, and for the host where it has a budget of its own.

    An accelerator without a budget gets ``auto``: 95 % of its free memory, or of the memory in its profile where no
    such device answers, which a note then says. ``free_bytes`` is the free memory of a device, or of all of them.

    Raises:
        InvalidOptionError: a budget is of a device the machine does not have.
    """
    asked = {budget.device: budget for budget in budgets}
    own = {known_device(name, machine, budget.text): budget for name, budget in asked.items() if name is not None}
    common = asked.get(None, Budget(None, Auto.AUTO, Auto.AUTO))
    if None in asked and not machine.accelerators and common.amount != 0:
        raise InvalidOptionError(
            f"the budget {common.text!r} is of the accelerator, and the machine {machine.name!r} has none",
            hint="leave it out, or write --budget cpu=16GB for the host",
        )
    chosen = {device.name: common for device in machine.accelerators} | own
    return _resolve(chosen, machine, free_bytes)


def _resolve(chosen: Mapping[str, Budget], machine: Machine, free_bytes: FreeBytes | int | None) -> ResolvedBudgets:
    nbytes: dict[str, int] = {}
    notes: list[str] = []
    for name, budget in sorted(chosen.items()):
        device = machine.devices[machine.index(name)]
        wanted, note = _bytes_of(budget.amount, device, free_bytes)
        if wanted > device.memory_bytes:
            note = _capped(budget, device)
        nbytes[name] = min(wanted, device.memory_bytes)
        notes.extend([note] if note else [])
    return ResolvedBudgets(nbytes, tuple(notes))


def _bytes_of(amount: Amount, device: Device, free_bytes: FreeBytes | int | None) -> tuple[int, str]:
    if isinstance(amount, Fraction):
        return int(device.memory_bytes * amount), ""
    if not isinstance(amount, Auto):
        return amount, ""
    free = free_bytes(device.name) if callable(free_bytes) else free_bytes
    if free is not None:
        return int(min(free, device.memory_bytes) * _AUTO_SHARE), ""
    nbytes = int(device.memory_bytes * _AUTO_SHARE)
    return nbytes, (
        f"budget auto: {device.name} does not answer here, so {format_bytes(nbytes)} is 95 % of the"
        f" {format_bytes(device.memory_bytes)} in the profile {device.model}"
    )


def _capped(budget: Budget, device: Device) -> str:
    memory = format_bytes(device.memory_bytes)
    return f"budget {budget.text}: more than the {memory} that {device.name} ({device.model}) has, so {memory} is used"


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
    if not pattern.pattern or not _DEVICE_PATTERN.fullmatch(name):
        raise InvalidOptionError(f"the pin {text!r} is not pattern=device", hint=_PIN_HINT)
    return Pin(pattern.kind, pattern.pattern, name, text)


def parse_pattern(text: str) -> OpPattern:
    """What a pattern such as ``encoder.layer.0.*``, ``op:Gather`` or ``node:/fc/MatMul`` is compared with."""
    prefix, colon, rest = text.partition(":")
    kind = PinKind(prefix) if colon and prefix in (PinKind.OP, PinKind.NODE) else PinKind.ANY
    return OpPattern(kind, (text if kind is PinKind.ANY else rest).strip(), text)
