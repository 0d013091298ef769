"""Numbers that options of a training step may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from math import inf, isfinite
from numbers import Real
from pathlib import Path
from typing import Any

from hetpart.errors import InvalidOptionError

Schedule = Callable[[int], float]
"""The factor that multiplies every rate in an update, by its number, from 1."""
_SCHEDULE = "it is a function of the number of the update, from 1, to what multiplies every rate"
LARGEST = 3.4028234663852886e38
"""What float32 holds."""
_SEEDS = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Limits:
    """Finite numbers from ``least``, or above it, up to ``below``, which is none of them."""

    least: float = 0.0
    above: bool = False
    below: float = inf

    def __str__(self) -> str:
        behind = f" and below {self.below:g}" if isfinite(self.below) else ""
        return f"a finite number {'above' if self.above else 'from'} {self.least:g}{behind}"

    def number(self, name: str, value: Any) -> float:
        """``value``, which is that of ``name``, as Python has numbers.

        Raises:
            InvalidOptionError: it is no number, or beyond the limits.
        """
        is_number = type(value) is not bool and isinstance(value, Real)
        if not is_number or not _is_finite(value) or not self._holds(float(value)):
            raise InvalidOptionError(f"{name} cannot be {value!r}", hint=f"it is {self}")
        return float(value)

    def _holds(self, value: float) -> bool:
        return (value > self.least if self.above else value >= self.least) and value < self.below


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


FROM_0, ABOVE_0 = Limits(), Limits(above=True)


def path_of(name: str, given: Any) -> Path:
    """``given``, which is that of ``name``, as a path.

    Raises:
        InvalidOptionError: it is none.
    """
    wanted: Any = given or None  # no text is no path, where pathlib has the folder that one is in
    try:
        found = Path(wanted)
    except TypeError as error:
        raise InvalidOptionError(f"{name} cannot be {given!r}", hint=f'it is a path: "runs/{name}"') from error
    try:
        found.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found
    except (OSError, ValueError) as error:  # too long, or with a null in it
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidOptionError(f"{name} cannot be {given!r}: {why}", hint="choose another name") from error
    return found


def require_count(name: str, value: Any, least: int = 1) -> None:
    """See that ``value``, which is that of ``name``, is a whole number from ``least`` on.

    Raises:
        InvalidOptionError: it is none.
    """
    if type(value) is not int or value < least:
        raise InvalidOptionError(f"{name} cannot be {value!r}", hint=f"it is a whole number from {least} on")


def require_cardinalities(given: Any, least: int, count: int | None = None) -> None:
    """See that ``given`` is whole numbers from ``least`` on, ``count`` of them or any number but none.

    Raises:
        InvalidOptionError: it is none.
    """
    hint = f"give {f'{count} ' if count else ''}whole numbers from {least} on, each the rows of a table"
    if not isinstance(given, Iterable):
        raise InvalidOptionError(f"cardinalities cannot be {given!r}", hint=hint)
    rows: list[Any] = [*given]
    odd = [number for number in rows if not hasattr(number, "__index__") or int(number) < least]
    if odd:
        raise InvalidOptionError(f"a cardinality cannot be {odd[0]!r}", hint=hint)
    if len(rows) != (count or max(len(rows), 1)):
        raise InvalidOptionError(f"there are {len(rows)} cardinalities", hint=hint)


def require_arguments(name: str, function: Callable[..., Any], count: int, hint: str) -> None:
    """See that ``function``, which is that of ``name``, takes ``count`` arguments, where Python knows.

    Raises:
        InvalidOptionError: it takes others.
    """
    try:
        known = signature(function)
    except (TypeError, ValueError):  # one written in C
        return
    try:
        known.bind(*range(count))
    except TypeError as error:
        raise InvalidOptionError(
            f"{name} cannot be called with {count} argument{'s' if count > 1 else ''}: it takes {known}", hint=hint
        ) from error


def require_seed(seed: Any) -> None:
    """See that ``seed`` is one of PyTorch's.

    Raises:
        InvalidOptionError: it is none.
    """
    if not isinstance(seed, int) or seed not in _SEEDS:
        raise InvalidOptionError(f"seed cannot be {seed!r}", hint="it is a whole number from -2^63 to 2^63 - 1")


def require_schedule(schedule: Any) -> None:
    """See that a schedule, if there is one, is a function.

    Raises:
        InvalidOptionError: it is none.
    """
    if schedule is None:
        return
    if not callable(schedule) or isinstance(schedule, type):
        raise InvalidOptionError(f"schedule cannot be {schedule!r}", hint=_SCHEDULE)
    require_arguments("schedule", schedule, 1, _SCHEDULE)


def rate_of(schedule: Schedule, update: int) -> float:
    """The factor of ``schedule`` in an update.

    Raises:
        InvalidOptionError: it is no finite number from 0: one below would go up the loss.
    """
    given: Any = schedule(update)
    try:
        rate = float(given)
    except (TypeError, ValueError):
        rate = inf
    if not isfinite(rate) or rate < 0:
        raise InvalidOptionError(
            f"the schedule gives {given!r} for update {update}",
            hint=f"it returns what multiplies rates, {FROM_0}",
        )
    return rate
