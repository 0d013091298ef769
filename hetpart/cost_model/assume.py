"""Assumptions × Graph → the same graph, with what is assumed written on its ops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import translate
from itertools import accumulate

from hetpart.cost_model.assumptions import Access, Assumptions, TripCount
from hetpart.cost_model.formulas.control import is_loop
from hetpart.cost_model.formulas.experts import WEIGHTS as EXPERT_WEIGHTS
from hetpart.cost_model.formulas.table import CONTRIB
from hetpart.errors import InvalidOptionError
from hetpart.graph.ir import AS_USUAL, Graph, Op, Usage, Value

_SUGGESTIONS = 5
_NUMBER = re.compile(r"\[(\d+)\]")
"""As names of modules in lists have it, such as ``experts[0]``."""


def assume(graph: Graph, assumptions: Assumptions) -> Graph:
    """``graph`` with the trip counts and access probabilities of ``assumptions`` on its ops, and on those in bodies.

    What the file says of how often an op has something to do is written there too.

    Raises:
        InvalidOptionError: a name matches nothing, or two trip counts or rows contradict each other.
    """
    told = assumptions.trip_counts or assumptions.access
    if not told and all(op.every == 1 for op in graph.ops):
        return graph
    trips = _trip_counts(graph, assumptions.trip_counts)
    return _rewritten(graph, trips, _Profile.of(graph, assumptions.access))


def _rewritten(graph: Graph, trips: Mapping[str, int], profile: _Profile) -> Graph:
    return replace(graph, ops=tuple(_assumed(op, graph, trips, profile) for op in graph.ops))


def _assumed(op: Op, graph: Graph, trips: Mapping[str, int], profile: _Profile) -> Op:
    trip_count = trips.get(op.name) if is_loop(op) else None
    usage = Usage(trip_count, profile.probability(op, graph), profile.most_bytes_read(op, graph))
    bodies = tuple(_rewritten(body, trips, profile) for body in op.bodies)
    return replace(op, usage=usage, bodies=bodies) if bodies or usage != AS_USUAL else op


def _all_ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for body in op.bodies:
            yield from _all_ops(body)


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for op in graph.ops:
        for body in op.bodies:
            yield from _all_graphs(body)


def _trip_counts(graph: Graph, asked: Sequence[TripCount]) -> dict[str, int]:
    """How often the loops of these names run."""
    loops = list(dict.fromkeys(op.name for op in _all_ops(graph) if is_loop(op)))
    told: dict[str, TripCount] = {}
    for trips in asked:
        found = _matched(trips.pattern, loops)
        if not found:
            raise InvalidOptionError(
                f"the trip count {trips.text!r} matches no Loop, Scan or SequenceMap of {graph.name!r}",
                hint=_suggestion(trips.pattern, loops, "loops"),
            )
        for name in found:
            if told.setdefault(name, trips).count != trips.count:
                raise InvalidOptionError(
                    f"the trip counts {told[name].text!r} and {trips.text!r} contradict each other on {name!r}",
                    hint="make one of the patterns narrower",
                )
    return {name: trips.count for name, trips in told.items()}


def _suggestion(pattern: str, names: Sequence[str], noun: str) -> str:
    close = get_close_matches(pattern, names, _SUGGESTIONS, cutoff=0.3) or names[:_SUGGESTIONS]
    return f"its {noun} are named like {', '.join(close)}" if close else f"it has no {noun}"


@dataclass(frozen=True, slots=True)
class _Profile:
    """An access profile beside a graph: which entry speaks of which name."""

    weights: Mapping[str, Sequence[str]]
    """Every name of each weight: its own, and those it is derived from."""
    entries: Sequence[Access]
    numbers: Mapping[str, int]
    """For every name that an entry speaks of, the last one that does."""
    touched: Mapping[str, int]
    """Bytes of a weight that a run touches, where the profile speaks of its rows."""

    @classmethod
    def of(cls, graph: Graph, entries: Sequence[Access]) -> _Profile:
        weights = {v.name: v for g in _all_graphs(graph) for v in g.values if v.is_constant}
        # A weight's own name, or a module's, may end as rows do: then that is meant.
        named = weights.keys() | {name for op in _all_ops(graph) for name in _names(op)}
        _require_rows(entry for entry in entries if entry.key not in named)
        entries = [replace(e, pattern=e.key, rows=None) if e.key in named else e for e in entries]
        whole = [entry for entry in entries if entry.rows is None]
        names = {name: (name, *value.sources) for name, value in weights.items()}
        known = {name: None for group in (*names.values(), *map(_names, _all_ops(graph))) for name in group}
        touched = _touched([entry for entry in entries if entry.rows is not None], weights)
        return cls(names, whole, _numbers(whole, list(known)), touched)

    def probability(self, op: Op, graph: Graph) -> float:
        """By what names the op itself, then by its most likely weight; as the file has it where nothing does."""
        own = self._probability(_names(op))
        if own is not None:
            return own
        weights = (self.weights[name] for name in _weights(op, graph) if name in self.weights)
        return max((p for names in weights if (p := self._probability(names)) is not None), default=1 / op.every)

    def most_bytes_read(self, op: Op, graph: Graph) -> int | None:
        """Bytes of all that the op uses, of its weights those that a run touches; None where it touches all."""
        if not any(name in self.touched for name in _weights(op, graph)):
            return None
        experts = _experts(op, graph)
        share = max(
            [self.touched[v.name] / v.nbytes for v in experts if v.name in self.touched and v.nbytes], default=1.0
        )
        most = {**{value.name: round(share * value.nbytes) for value in experts}, **self.touched}
        return sum(most.get(graph.values[value].name, graph.values[value].nbytes) for value in op.uses)

    def _probability(self, names: Sequence[str]) -> float | None:
        """What the last entry says that speaks of one of these names."""
        number = max((self.numbers[name] for name in names if name in self.numbers), default=None)
        return None if number is None else self.entries[number].probability


def _require_rows(entries: Iterable[Access]) -> None:
    """Refuse what was meant as rows: its brackets would match other names."""
    for entry in entries:
        if entry.is_nearly_rows:
            raise InvalidOptionError(
                f"the access profile's {entry.key!r} ends in brackets that name no rows",
                hint="rows are written NAME[I], NAME[I:J] or NAME[I:], in whole numbers from 0",
            )


def _numbers(entries: Sequence[Access], names: Sequence[str]) -> dict[str, int]:
    """For every name that an entry speaks of, the number of the last one that does.

    Raises:
        InvalidOptionError: an entry speaks of none.
    """
    known = set(names)
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        found = [entry.pattern] if entry.pattern in known else _matched(entry.pattern, names)
        if not found:
            raise _matches_nothing(entry, names)
        numbers.update(dict.fromkeys(found, number))
    return numbers


def _matched(pattern: str, names: Iterable[str]) -> list[str]:
    """Names that are ``pattern`` or that it matches as a glob; a number in brackets is one first of all."""
    names = [*names]
    for glob in dict.fromkeys((_NUMBER.sub(r"[[]\1]", pattern), pattern)):
        matches = re.compile(translate(glob)).match
        found = [name for name in names if name == pattern or matches(name)]
        if found:
            return found
    return []


def _names(op: Op) -> tuple[str, ...]:
    """What an entry may call the op: its node name, its modules', and what is directly in its module."""
    modules = tuple(accumulate(op.scope.split("."), "{}.{}".format)) if op.scope else ()
    own = [(op.op_type, op.name)] + ([(op.origin.op_type, op.origin.name)] if op.origin else [])
    return (*(name for _, name in own), *modules, *(f"{op.scope}.{op_type}" for op_type, _ in own if op.scope))


def _weights(op: Op, graph: Graph) -> list[str]:
    """Names of what the op reads; what its bodies read is theirs."""
    return [] if op.bodies else [graph.values[value].name for value in op.uses]


def _experts(op: Op, graph: Graph) -> tuple[Value, ...]:
    """Weights that hold a row for each expert: what is told of the rows of one is told of the others'."""
    position = next(iter(EXPERT_WEIGHTS.get(op.op_type, ())), None) if op.domain == CONTRIB else None
    first = None if position is None else graph.in_values(op)[position]
    rows = (None,) if first is None or not first.shape else first.shape
    values = (graph.values[value] for value in op.uses)
    return tuple(v for v in values if rows[0] is not None and v.is_constant and v.shape and v.shape[0] == rows[0])


def _touched(entries: Sequence[Access], weights: Mapping[str, Value]) -> dict[str, int]:
    """Bytes that a run touches of every weight whose rows an entry names; a row without an entry is touched."""
    rows: dict[str, list[Access]] = {}
    for entry in entries:
        found = _matched(entry.pattern, weights)
        if not found:
            raise _matches_nothing(entry, list(weights))
        for name in found:
            rows.setdefault(name, []).append(entry)
    return {name: _touched_bytes(weights[name], parts) for name, parts in rows.items()}


def _touched_bytes(weight: Value, parts: Sequence[Access]) -> int:
    total = (weight.shape or (0,))[0] or 0
    end, touched = 0, 0.0
    for entry in sorted(parts, key=_start):
        start, stop = _start(entry), _stop(entry, total)
        if start < end or stop > total or start >= total:
            raise InvalidOptionError(
                f"the access profile's {entry.key!r} overlaps another entry, or is beyond the {total} rows"
                f" of {weight.name!r}",
                hint="name every row once",
            )
        touched += start - end + (stop - start) * entry.probability
        end = stop
    return round((touched + total - end) * weight.nbytes / total)


def _start(entry: Access) -> int:
    return entry.rows.start if entry.rows else 0


def _stop(entry: Access, total: int) -> int:
    return total if entry.rows is None or entry.rows.stop is None else entry.rows.stop


def _matches_nothing(entry: Access, names: Sequence[str]) -> InvalidOptionError:
    return InvalidOptionError(
        f"the access profile's {entry.key!r} matches no weight, op or module",
        hint=_suggestion(entry.pattern, names, "weights and ops"),
    )
