"""Which op of one plan is which of another, by what a re-export keeps: module path, type and order, or a name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from hetpart.plan.model import Decision

_MOST_ALIGNED = 4_000_000
"""Pairs of ops of one module, beyond which they are matched by their names alone: alignment looks at each."""


def matched_ops(before: Sequence[Decision], after: Sequence[Decision]) -> list[tuple[Decision, Decision]]:
    """Pairs of one op in both, in the order of ``after``.

    Ops of one module are one after another what they were where their types are: exporters number nodes, and a node
    more shifts the names of all that follow. Where a module has the same names as before, and where no module is known,
    an op is the one with its name and type.
    """
    old, new = _by_scope(before), _by_scope(after)
    pairs = [pair for scope in new if scope in old for pair in _in_scope(old[scope], new[scope], scope)]
    return [(before[first], after[second]) for first, second in sorted(pairs, key=lambda pair: pair[1])]


_Ops = Mapping[int, tuple[str, str]]
"""Name and type of ops by their place in the plan, ascending."""


def _by_scope(decisions: Sequence[Decision]) -> dict[str, dict[int, tuple[str, str]]]:
    found: dict[str, dict[int, tuple[str, str]]] = defaultdict(dict)
    for place, decision in enumerate(decisions):
        found[decision.scope][place] = (decision.op, decision.op_type)
    return found


def _in_scope(old: _Ops, new: _Ops, scope: str) -> Iterator[tuple[int, int]]:
    same_names = sorted(old.values()) == sorted(new.values())
    if same_names or not scope or len(old) * len(new) > _MOST_ALIGNED:
        places = {known: place for place, known in old.items()}
        yield from ((places[known], place) for place, known in new.items() if known in places)
        return
    first, second = list(old), list(new)
    types = [op_type for _, op_type in old.values()], [op_type for _, op_type in new.values()]
    for block in SequenceMatcher(None, *types, autojunk=False).get_matching_blocks():
        yield from zip(first[block.a : block.a + block.size], second[block.b : block.b + block.size], strict=True)
