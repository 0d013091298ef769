"""Texts in few bytes: what thousands of them share is written once. The page's script takes them apart again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_FIGURE = re.compile(r"(?<=[\s(])\d+(?:\.\d+)?")
_HOLE = "\0"
"""In place of a figure: no escaped text holds it."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Different texts in their order, and the number of each place's text."""

    texts: list[str]
    numbers: list[int]


def numbered(texts: Iterable[str]) -> Numbered:
    """Every text once."""
    given = list(texts)
    known = sorted(set(given))
    place = {text: number for number, text in enumerate(known)}
    return Numbered(known, [place[text] for text in given])


def front_coded(texts: Sequence[str]) -> list[int | str]:
    """For each text, how many UTF-16 units it shares with the one before, then what follows these."""
    coded: list[int | str] = []
    before = ""
    for text in texts:
        shared = _shared(before, text)
        coded += [len(text[:shared].encode("utf-16-le")) // 2, text[shared:]]
        before = text
    return coded


def _shared(one: str, other: str) -> int:
    """Characters at the start that both have in common, halved down to."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


@dataclass(frozen=True, slots=True)
class Filled:
    """Sentences that differ in their figures, taken apart."""

    forms: list[str]
    """Sentences with holes."""
    filled: list[str]
    """For each sentence the number of its form, then what fills the holes, with spaces between."""


def formed(texts: Sequence[str]) -> Filled:
    """Every form of ``texts`` once."""
    forms = numbered(_FIGURE.sub(_HOLE, text) for text in texts)
    filled = [" ".join((str(form), *_FIGURE.findall(text))) for form, text in zip(forms.numbers, texts, strict=True)]
    return Filled(forms.texts, filled)
