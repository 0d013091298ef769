"""Bytes and seconds, read from what people type and written as people read them.

GB is 10**9 bytes and GiB 2**30; both are read, and what is printed says which.
"""

from __future__ import annotations

import re

from hetpart.errors import InvalidOptionError

OPEN = -1
"""Stands for the number of a dimension that has another in every run: ``past=?``."""
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50}
_MULTIPLIERS = _DECIMAL | _BINARY
_BYTES_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?i?)b?\s*", re.IGNORECASE | re.ASCII)
_HINT = "write a number with a unit, such as 16GB (10^9 bytes), 12GiB (2^30 bytes), 300kB or 4096"
_RATE_SUFFIX = "/s"
_SECONDS_HINT = "write a number with a unit, such as 20ms, 1.5s or 300us"
_SECONDS_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us|µs|ns)\s*", re.IGNORECASE | re.ASCII)
_LEAST_SHARE = 0.001
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_bytes(text: str) -> int:
    """Bytes in ``text``: ``16GB``, ``300kB``, ``12GiB`` or a plain number.

    Raises:
        InvalidOptionError: ``text`` is not a size, or is negative.
    """
    match = _BYTES_PATTERN.fullmatch(text)
    multiplier = _MULTIPLIERS.get(match[2].lower()) if match else None
    if match is None or multiplier is None:
        raise InvalidOptionError(f"{text!r} is not a size in bytes", hint=_HINT)
    if 0 < float(match[1]) * multiplier < 1:
        raise InvalidOptionError(f"{text!r} is less than a byte", hint=_HINT)
    return round(float(match[1]) * multiplier) if "." in match[1] else int(match[1]) * multiplier


def parse_rate(text: str) -> float:
    """Bytes per second in ``text``, such as ``12GB/s``."""
    return float(parse_bytes(text.strip().removesuffix(_RATE_SUFFIX)))


def parse_seconds(text: str) -> float:
    """Seconds in ``text``: ``20ms``, ``1.5 s`` or ``300us``.

    Raises:
        InvalidOptionError: ``text`` is not a time with a unit.
    """
    match = _SECONDS_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidOptionError(
            f"{text!r} is not a time", hint="write a number with a unit, such as 20ms, 1.5s or 300us"
        )
    return float(match[1]) * _SECONDS[match[2].lower()]


def format_bytes(nbytes: float) -> str:
    """``nbytes`` with three significant digits and a decimal unit."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(nbytes) >= 0.9995 * scale:
            return f"{nbytes / scale:.{_decimals(nbytes / scale)}f} {unit}"
    return f"{int(nbytes)} B"


def format_seconds(seconds: float) -> str:
    """``seconds`` with three significant digits and the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= 0.9995 * scale:
            return f"{seconds / scale:.{_decimals(seconds / scale)}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def format_percent(share: float) -> str:
    """``share`` as a percentage, with decimals only where they tell something."""
    if 0 < share < _LEAST_SHARE:
        return f"<{_LEAST_SHARE * 100:g} %"
    return f"{share * 100:.{0 if share >= 0.1 else 1}f} %"


def format_count(number: int, noun: str) -> str:
    """``1 op``, ``2 ops``, ``3 copies``."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def _decimals(number: float) -> int:
    magnitude = abs(number)
    if magnitude < 9.995:
        return 2
    return 1 if magnitude < 99.95 else 0
