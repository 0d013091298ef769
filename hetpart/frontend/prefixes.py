"""Weights that files call as a module does that holds this one, or that it holds: ``model.fc.weight`` of ``fc.weight``.

So are those of a model with a head beside the model alone, and of one that was wrapped when it was saved
(``module.`` of DistributedDataParallel, ``_orig_mod.`` of ``torch.compile``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetpart.frontend.safetensors import StoredWeights


def called_as(
    stored: StoredWeights, state: AbstractSet[str], tied: Mapping[str, str], name: str
) -> tuple[StoredWeights, str]:
    """``stored`` by the names of ``state``, and what the user should know of it.

    As they are where one is the same in both, or no one prefix makes them all that ``state`` needs.
    """
    found = stored.extents.keys()
    if not found.isdisjoint(state):
        return stored, ""
    for longer, shorter, is_theirs in ((found, state, True), (state, found, False)):
        prefix = _prefix(longer, shorter)
        names = {other: other.removeprefix(prefix) if is_theirs else prefix + other for other in found}
        named = {other: own for other, own in names.items() if own in state and own != other}
        if prefix and {tied.get(own, own) for own in named.values()} >= {tied.get(own, own) for own in state}:
            extents = {named.get(other, other): extent for other, extent in stored.extents.items()}
            return replace(stored, extents=extents), _note(prefix, name, is_theirs=is_theirs)
    return stored, ""


def _prefix(longer: Collection[str], shorter: AbstractSet[str]) -> str:
    """What most names of ``longer`` have before one of ``shorter``; ``""`` where two are as good."""
    known = Counter(prefix for name in longer for prefix, rest in _parted(name) if rest in shorter)
    best = known.most_common(2)
    return "" if not best or (len(best) > 1 and best[0][1] == best[1][1]) else best[0][0]


def _parted(name: str) -> Iterator[tuple[str, str]]:
    place = name.find(".")
    while place >= 0:
        yield name[: place + 1], name[place + 1 :]
        place = name.find(".", place + 1)


def _note(prefix: str, name: str, *, is_theirs: bool) -> str:
    with_it, without = ("the files", name) if is_theirs else (name, "the files")
    return f"names of weights begin with {prefix!r} in {with_it} and not in {without}: they are taken for the same"
