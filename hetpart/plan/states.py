"""Inputs with the outputs that replace them, found by name and shape."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

AUTO = "auto"
UPDATES = frozenset({"Scatter", "ScatterElements", "ScatterND"})
"""They copy their first input to their output, unless these are one, and then write a few elements."""
LOOKS = frozenset({"Gather", "GatherElements", "GatherND", "Shape", "Size"})
"""Their output shares no memory with what they read."""
_WORDS = re.compile(r"[a-z]+|\d+")
_SIDES = frozenset({"in", "input", "out", "output"})
"""Words that every model's borders have."""
_TIMES = frozenset(
    {
        "cur", "current", "initial", "last", "new", "next", "old", "past", "prev", "present", "previous", "update",
        "updated",
    }
)  # fmt: skip
"""Words that tell the old content from the new, and say nothing of what it is."""
_HELD = frozenset(
    {
        "buffer", "c", "cache", "caches", "cell", "h", "hidden", "key", "keys", "kv", "memory", "moment", "moments",
        "state", "states", "table", "tables", "value", "values",
    }
)  # fmt: skip
"""Words for what is kept."""
_CACHE = re.compile(r"(past|present)_key_values?(?=$|\W)")


@dataclass(frozen=True, slots=True)
class Port:
    """A graph input or output."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


def find_states(inputs: Iterable[Port], outputs: Iterable[Port]) -> dict[str, str]:
    """Outputs by the inputs that they are the new content of, such as ``present.0.key`` of ``past_key_values.0.key``.

    Two belong together that have one dtype, shapes that fit, and names that differ in nothing but words such as
    ``past`` and ``present``, or ``in`` and ``out`` where others tell that it is kept, as ``cache``: what a model makes
    of its ``image`` is its ``output_image``, too. Where several would, none do.
    """
    old, new = _by_meaning(inputs), _by_meaning(outputs)
    pairs = ((old[key], new[key]) for key in old if key in new)
    single = ((a[0], b[0]) for a, b in pairs if len(a) == len(b) == 1)
    return {old.name: new.name for old, new in single if fits(old, new) and _is_kept(old.name, new.name)}


def _by_meaning(ports: Iterable[Port]) -> Mapping[tuple[str, ...], Sequence[Port]]:
    found: dict[tuple[str, ...], list[Port]] = defaultdict(list)
    for port in ports:
        found[_meaning(port.name)].append(port)
    return found


def _meaning(name: str) -> tuple[str, ...]:
    return tuple(word for word in _WORDS.findall(_CACHE.sub("", name.lower())) if word not in _TIMES | _SIDES)


def _is_kept(old: str, new: str) -> bool:
    """Whether the names tell that the one is there again as the other."""
    return not (_TIMES | _HELD).isdisjoint(_WORDS.findall(f"{old} {new}".lower()))


def fits(old: Port, new: Port) -> bool:
    """Whether ``new`` can be the next content of ``old``: sizes that only a run tells fit any."""
    if old.dtype != new.dtype or old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
        return False
    return all(a is None or a == b for a, b in zip(old.shape, new.shape, strict=True))
