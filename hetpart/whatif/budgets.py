"""Which budgets a sweep asks about: a range, a list, or from none at all to the whole footprint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10

from hetpart.budgets import Auto, Budget, parse_budget
from hetpart.errors import InvalidOptionError

BudgetsOption = Sequence[str | int] | str | int | None
"""What ``budgets=`` may be."""

DEFAULT_POINTS = 12
MOST_POINTS = 1000
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Mantissas of the distance between two points, where their number is left open."""
_HINT = "write --budgets 2GB:24GB, --budgets 2GB,4GB,8GB or --budgets 10%:100%"


@dataclass(frozen=True, slots=True)
class BudgetRange:
    """Budgets between two, both included."""

    low: Budget
    high: Budget
    text: str


Budgets = BudgetRange | tuple[Budget, ...] | None
"""``None``: from none at all to the model's footprint."""


def parse_budgets(given: BudgetsOption) -> Budgets:
    """``2GB:24GB`` as a range, ``2GB,4GB`` or a sequence as a list.

    Raises:
        InvalidOptionError: it is neither, or a budget in it is no number.
    """
    if given is None:
        return None
    texts = [given] if isinstance(given, str | int) else list(given)
    parts = [part.strip() for text in texts for part in str(text).split(",") if part.strip()]
    if not parts:
        raise InvalidOptionError("budgets is empty", hint=_HINT)
    if len(parts) == 1 and ":" in parts[0] and "=" not in parts[0]:
        return _range(parts[0])
    return tuple(_budget(part) for part in parts)


def _range(text: str) -> BudgetRange:
    low, _, high = text.partition(":")
    return BudgetRange(_budget(low.strip(), text), _budget(high.strip(), text), text)


def _budget(text: str, whole: str = "") -> Budget:
    if not text:
        raise InvalidOptionError(f"the range {whole!r} lacks an end", hint=_HINT)
    (budget,) = parse_budget(text)
    if budget.device is not None:
        raise InvalidOptionError(f"{text!r} names a device: a sweep is of the accelerator's budget", hint=_HINT)
    if isinstance(budget.amount, Auto):
        raise InvalidOptionError(f"{text!r} is no size: a sweep needs numbers", hint=_HINT)
    return budget


def budget_points(
    budgets: Budgets, points: int | None, bytes_of: Callable[[Budget], int], footprint: Callable[[], int]
) -> list[int]:
    """Bytes of every budget asked about, ascending, each once.

    Args:
        budgets: As they were asked for.
        points: Of a range; by default about a dozen at round distances.
        bytes_of: The bytes of a budget on the machine at hand, no more than its memory.
        footprint: What the model takes at most, no more than that memory either.

    Raises:
        InvalidOptionError: a range ends below its start, or ``points`` does not suit it.
    """
    if points is not None and not 2 <= points <= MOST_POINTS:
        raise InvalidOptionError(f"points cannot be {points}", hint=f"it is a number from 2 to {MOST_POINTS}")
    if isinstance(budgets, tuple):
        if points is not None:
            raise InvalidOptionError(f"points is of a range, and {len(budgets)} budgets are listed", hint=_HINT)
        return sorted({bytes_of(budget) for budget in budgets})
    low, high = (0, footprint()) if budgets is None else (bytes_of(budgets.low), bytes_of(budgets.high))
    if budgets is not None and low > high:
        raise InvalidOptionError(f"the range {budgets.text!r} ends below its start", hint=_HINT)
    return _evenly(low, high, points) if points else _round(low, high)


def _evenly(low: int, high: int, points: int) -> list[int]:
    return sorted({low + (high - low) * index // (points - 1) for index in range(points)})


def _round(low: int, high: int) -> list[int]:
    """About a dozen budgets at multiples of a round number, and both ends."""
    if low == high:
        return [low]
    rough = (high - low) / (DEFAULT_POINTS - 1)
    scale = 10.0 ** floor(log10(rough))
    step = max(1, round(scale * min(_STEPS, key=lambda mantissa: abs(log10(mantissa * scale / rough)))))
    inner = range((low // step + 1) * step, high, step)
    # A point right beside an end tells nothing of its own.
    apart = [budget for budget in inner if min(budget - low, high - budget) * 4 >= step]
    return [low, *apart, high]
