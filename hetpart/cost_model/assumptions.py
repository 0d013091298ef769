"""What the user knows of a run and no shape tells: how often loops run, and which weights and experts are touched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

from hetpart.errors import InvalidOptionError

TripOption = Mapping[str, int] | Sequence[str] | str | None
"""What ``trip_count=`` may be."""
AccessOption = Mapping[str, float] | str | PathLike[str] | None
"""What ``access=`` may be: probabilities by name, or a JSON file of them."""

_COUNT = re.compile(r"[0-9]{1,15}")
_ROWS = re.compile(r"(.+)\[(\d{1,15})(?:(:)(\d{0,15}))?\]", re.DOTALL)
_NEARLY_ROWS = re.compile(r".*\[(?!\d-\d\])[\d:,+\s-]*\]", re.DOTALL)
"""As a glob it would be a class of characters, which nobody writes so; one of digits, such as ``[0-9]``, is."""
_TRIP_HINT = "write --trip-count 'decoder/loop*=32', by the name of a Loop, Scan or SequenceMap"
_ACCESS_HINT = """write an object such as {"experts.3.*": 0.25, "user_table[0:1000]": 0.9}: probabilities by name"""


@dataclass(frozen=True, slots=True)
class TripCount:
    """Loops that ``pattern`` matches run their body ``count`` times."""

    pattern: str
    count: int

    @property
    def text(self) -> str:
        return f"{self.pattern}={self.count}"


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of indices of a weight's first dimension. Without a ``stop`` it is all from ``start`` on."""

    start: int
    stop: int | None


@dataclass(frozen=True, slots=True)
class Access:
    """A run touches what ``key`` names with this probability."""

    key: str
    """As it was written: the name of a weight, op or module, a glob of names, or either with rows."""
    probability: float
    pattern: str
    """``key`` without its rows."""
    rows: Rows | None = None

    @property
    def is_nearly_rows(self) -> bool:
        """Whether ``key`` ends in brackets as of rows that are none."""
        return self.rows is None and _NEARLY_ROWS.fullmatch(self.key) is not None


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed of every run when ops are priced."""

    trip_counts: tuple[TripCount, ...] = ()
    access: tuple[Access, ...] = ()
    access_text: str = ""
    """How the access profile was given: the path of its file, or the profile itself."""

    def options(self) -> dict[str, str]:
        """The options that say the same, by name."""
        return {"access": self.access_text, "trip_count": " ".join(trips.text for trips in self.trip_counts)}


NOTHING_ASSUMED = Assumptions()


def parse_assumptions(trip_count: TripOption = None, access: AccessOption = None) -> Assumptions:
    """Options as they were given, in one record. An access profile in a file is read now.

    Raises:
        InvalidOptionError: a text is not ``name=number``, or the profile is not an object of probabilities.
    """
    profile = access if isinstance(access, Mapping) else _read(access)
    text = json.dumps(dict(profile)) if isinstance(access, Mapping) else str(access or "")
    return Assumptions(parse_trip_counts(trip_count), tuple(_access(key, p) for key, p in profile.items()), text)


def parse_trip_counts(texts: TripOption) -> tuple[TripCount, ...]:
    """Trip counts in the order given, such as ``decoder/loop*=32``. A mapping gives the count of each pattern.

    Raises:
        InvalidOptionError: a text has no pattern, or no whole number after its last ``=``.
    """
    if isinstance(texts, Mapping):
        texts = [f"{pattern}={count}" for pattern, count in texts.items()]
    return tuple(_trip_count(text) for text in ([texts] if isinstance(texts, str) else texts or ()))


def _trip_count(text: str) -> TripCount:
    pattern, _, count = (part.strip() for part in text.rpartition("="))
    if not pattern or not _COUNT.fullmatch(count):
        raise InvalidOptionError(f"the trip count {text!r} is not name=number", hint=_TRIP_HINT)
    return TripCount(pattern, int(count))


def _read(path: str | PathLike[str] | None) -> Mapping[str, Any]:
    if path is None or not str(path):
        return {}
    try:
        content = json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repetition)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidOptionError(
            f"cannot read the access profile {str(path)!r}: {reason}", hint=_ACCESS_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(f"the access profile {str(path)!r} is not JSON: {error}", hint=_ACCESS_HINT) from error
    if not isinstance(content, dict):
        raise InvalidOptionError(f"the access profile {str(path)!r} is not a JSON object", hint=_ACCESS_HINT)
    return cast("dict[str, Any]", content)


def _without_repetition(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise InvalidOptionError(f"the access profile gives {key!r} twice", hint="keep one")
        content[key] = value
    return content


def _access(key: str, probability: object) -> Access:
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise InvalidOptionError(
            f"the access profile gives {key!r} {probability!r}, which is not a probability",
            hint="write a number from 0 to 1: how likely a run touches it",
        )
    match = _ROWS.fullmatch(key)
    if match is None:
        return Access(key, float(probability), key)
    start = int(match[2])
    stop = (int(match[4]) if match[4] else None) if match[3] else start + 1
    if stop is not None and stop <= start:
        raise InvalidOptionError(f"the access profile names {key!r}, which has no row", hint=_ACCESS_HINT)
    return Access(key, float(probability), match[1], Rows(start, stop))
