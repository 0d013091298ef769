# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Compare results with those of the uncut model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetpart.plan.run import CheckResult

TOLERANCES: Mapping[str, float] = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
"""Largest difference, as a share of the largest finite magnitude in the uncut model's result.

ONNX Runtime's optimisations reorder sums, and a cut changes what they see. What is not listed must be equal: integers,
booleans, strings.
"""
NOISE: Mapping[str, float] = {
    "float64": 2**-48,
    "float32": 2**-19,
    "float16": 2**-6,
    "bfloat16": 2**-3,
    "complex64": 2**-19,
    "complex128": 2**-48,
}
"""What sums of numbers near 1 leave where they cancel: 16 units of the dtype's last place. It is allowed to a result of
whatever magnitude."""


ROUNDED_AT_BORDERS = frozenset({"float16", "bfloat16"})
"""Types that no comparison holds to the bit: the CPU provider computes neighbouring ops of theirs in float32, and a
value that crosses a border is rounded to what it is declared to be."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How one result differs."""

    output: str
    largest: float
    """Largest absolute difference; infinite where kinds, shapes or NaNs differ."""
    equal: bool
    tolerance: float


@dataclass(frozen=True, slots=True)
class Uncut:
    """What a plan's results are compared with."""

    results: list[Any]
    through: frozenset[str] = frozenset()
    """Types of half precision that values on the way are rounded to, at other places than in the plan."""


def compare(
    names: list[str], ours: list[Any], uncut: list[Any], *, exact: bool, through: frozenset[str] = frozenset()
) -> CheckResult:
    """Every result against the uncut model's: bit for bit where ``exact``, else within the dtype's tolerance.

    Half-precision results are held to their tolerance in either case. So are wider ones where values on the way to them
    are rounded to the types ``through``.
    """
    differences = [
        _difference(name, mine, theirs, exact=exact, through=through)
        for name, mine, theirs in zip(names, ours, uncut, strict=True)
    ]
    worst = max(
        differences, key=lambda d: (not d.equal, d.largest), default=Difference("", 0.0, equal=True, tolerance=0)
    )
    return CheckResult(
        equal=all(difference.equal for difference in differences),
        exact=exact and worst.tolerance == 0,
        largest_difference=worst.largest,
        worst_output=worst.output,
        tolerance=worst.tolerance,
    )


def _difference(name: str, ours: Any, uncut: Any, *, exact: bool, through: frozenset[str]) -> Difference:
    if isinstance(uncut, np.ndarray) and isinstance(ours, np.ndarray):
        return _array_difference(name, ours, uncut, exact=exact, through=through)
    if isinstance(uncut, list) and isinstance(ours, list) and len(ours) == len(uncut):
        parts = [_difference(name, a, b, exact=exact, through=through) for a, b in zip(ours, uncut, strict=True)]
        return max(parts, key=lambda d: (not d.equal, d.largest), default=_verdict(name, equal=True))
    if isinstance(uncut, dict) and isinstance(ours, dict):
        return _difference(name, sorted(ours.items()), sorted(uncut.items()), exact=exact, through=through)
    if isinstance(uncut, tuple) and isinstance(ours, tuple):
        return _difference(name, list(ours), list(uncut), exact=exact, through=through)
    return _verdict(name, equal=type(ours) is type(uncut) and ours == uncut)


def _verdict(name: str, *, equal: bool) -> Difference:
    return Difference(name, 0.0 if equal else np.inf, equal, 0.0)


def _array_difference(
    name: str, ours: np.ndarray[Any, Any], uncut: np.ndarray[Any, Any], *, exact: bool, through: frozenset[str]
) -> Difference:
    if ours.shape != uncut.shape or ours.dtype != uncut.dtype:
        return _verdict(name, equal=ours.dtype == uncut.dtype and _both_empty(ours.shape, uncut.shape))
    if uncut.dtype.kind in "OSU":
        return _verdict(name, equal=bool((ours == uncut).all()))
    same_bits, dtype = ours.tobytes() == uncut.tobytes(), uncut.dtype.name
    if same_bits or dtype not in TOLERANCES or (exact and dtype not in ROUNDED_AT_BORDERS):
        return Difference(name, 0.0 if same_bits else _largest(ours, uncut), same_bits, 0.0)
    met = {dtype, *through}
    tolerance = max(max(map(TOLERANCES.__getitem__, met)) * _scale(uncut), *map(NOISE.__getitem__, met), 0.0)
    largest = _largest(ours, uncut)
    return Difference(name, largest, largest <= tolerance, tolerance)


def _both_empty(ours: tuple[int, ...], uncut: tuple[int, ...]) -> bool:
    """Whether neither holds an element and they differ only where the uncut model gives 0.

    A Loop without iterations gives an empty history. ONNX Runtime writes 0 for a dimension of it that has a name
    instead of a number, and a plan has bound that name.
    """
    if len(ours) != len(uncut) or 0 not in ours:
        return False
    return all(theirs in (mine, 0) for mine, theirs in zip(ours, uncut, strict=True))


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _scale(array: np.ndarray[Any, Any]) -> float:
    magnitudes = np.abs(_wide(array))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))


def _largest(ours: np.ndarray[Any, Any], uncut: np.ndarray[Any, Any]) -> float:
    """Largest absolute difference where both are finite; infinite where one is not and the other is not the same."""
    a, b = _wide(ours), _wide(uncut)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not (same | finite).all():
        return float("inf")
    return float(np.abs(a[~same] - b[~same]).max(initial=0.0))
