"""Budgets as people type them, read into records, and what they come to on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real
from typing import cast

from hetpart.config import DEVICE_PATTERN, LONGEST_NUMBER, device_name, known_device, parse_share
from hetpart.devices import Device, Machine
from hetpart.errors import InvalidOptionError
from hetpart.units import format_bytes, parse_bytes

_AUTO_SHARE = Fraction(95, 100)
_BUDGET_HINT = "write --budget 16GB, --budget 80%, --budget auto, --budget 0 or --budget cuda:0=16GB"


class Auto(StrEnum):
    """A budget that hetpart finds by itself."""

    AUTO = "auto"


Amount = int | Fraction | Auto
"""Bytes, a share of the device's memory, or what is free on it."""
BudgetOption = Mapping[str, str | int | float] | Sequence[str | int | float] | str | int | float | None
"""What ``budget=`` may be."""
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
    return cast("Sequence[str | float]", (texts,) if isinstance(texts, str | Real) else texts)


def _budget(given: str | float) -> Budget:
    text = str(given).strip() if isinstance(given, str | Integral) else _written(given)
    device, equals, amount = text.rpartition("=")
    if not equals:
        return Budget(None, _amount(amount, text), text)
    name = device_name(device)
    if not DEVICE_PATTERN.fullmatch(name):
        raise InvalidOptionError(f"the budget {text!r} names no device before its '='", hint=_BUDGET_HINT)
    if not amount.strip():
        raise InvalidOptionError(f"the budget {text!r} gives {name} no size", hint=_BUDGET_HINT)
    return Budget(name, _amount(amount.strip(), text), text)


def _written(nbytes: float) -> str:
    """A number of bytes that is none of Python's whole numbers, as ``16e9`` is none."""
    if isfinite(nbytes) and nbytes != int(nbytes):
        raise InvalidOptionError(f"the budget {nbytes!r} is no whole number of bytes", hint=_BUDGET_HINT)
    return f"{nbytes:.0f}"


def _amount(amount: str, text: str) -> Amount:
    if amount.lower() == Auto.AUTO:
        return Auto.AUTO
    if amount.startswith("-"):
        raise InvalidOptionError(f"the budget {text!r} is negative", hint=_BUDGET_HINT)
    if len(amount) > LONGEST_NUMBER:
        raise InvalidOptionError(f"the budget {text[:LONGEST_NUMBER]!r}… is not a size", hint=_BUDGET_HINT)
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
        InvalidOptionError: a budget is of a device the machine does not have, or every accelerator has another.
    """
    asked = {budget.device: budget for budget in budgets}
    own = {known_device(name, machine, budget.text): budget for name, budget in asked.items() if name is not None}
    common = asked.get(None, Budget(None, Auto.AUTO, Auto.AUTO))
    if None in asked and not machine.accelerators and common.amount != 0:
        raise InvalidOptionError(
            f"the budget {common.text!r} is of the accelerator, and the machine {machine.name!r} has none",
            hint="leave it out, or write --budget cpu=16GB for the host",
        )
    _require_use(asked.get(None), own, machine)
    chosen = {device.name: common for device in machine.accelerators} | own
    return _resolve(chosen, machine, free_bytes)


def _require_use(common: Budget | None, own: Mapping[str, Budget], machine: Machine) -> None:
    """A budget of every accelerator that has none of its own says nothing where each has one."""
    found = [own.get(device.name) for device in machine.accelerators]
    if common is None or not found or None in found:
        return
    other = next((budget for budget in found if budget is not None and budget.amount != common.amount), None)
    if other is not None:
        raise InvalidOptionError(
            f"the budgets {other.text!r} and {common.text!r} contradict each other: {machine.name!r} has no other "
            "accelerator",
            hint="give one budget for each device",
        )


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
