"""What ONNX Runtime's optimiser takes out of a graph before anything is fused: no-ops, and what is computed twice."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import onnx

from hetpart.graph.build import plain_attributes
from hetpart.graph.ir import Graph, Op

RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike", "Dropout"})
"""The same op on the same input makes another value."""
APART = RANDOM | {"DequantizeLinear"}
"""Ops of which none stands for another: of dequantizers each reader has its own, so that it does nothing twice."""
SHAPED = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
"""What they make is told by its shape: constants that say the same are often stored more than once."""

SHARED = frozenset({"float16", "float32", "float64", "int32", "int64"})
MOST_SHARED = 8
"""Elements up to which weights of these dtypes that are equal are one, whatever they are called."""


@dataclass(frozen=True, slots=True)
class Simplified:
    """What is left of some ops of a graph."""

    ops: tuple[Op, ...]
    same: Mapping[int, int]
    """Values that are not made: the one that stands for each."""

    def value(self, value: int) -> int:
        """The value that is made where ``value`` stands."""
        while value in self.same:
            value = self.same[value]
        return value

    def without(self, folded: Container[int], graph: Graph, returned: frozenset[int]) -> Simplified:
        """With ``folded`` ops left out as well: what reads one reads what flows into it."""
        gone = {op.id: op for op in self.ops if op.id in folded and returned.isdisjoint(op.results)}
        if not gone:
            return self
        into = {op.results[0]: _flows_in(op, graph) for op in gone.values()}
        return Simplified(tuple(op for op in self.ops if op.id not in gone), {**self.same, **into})


def _flows_in(op: Op, graph: Graph) -> int:
    """What it reads that is no constant; the first where all are, as weights are that a body captures."""
    return next((value for value in op.uses if not graph.values[value].is_constant), op.uses[0])


def simplified(graph: Graph, ops: Iterable[int], returned: frozenset[int]) -> Simplified:
    """``ops`` without those that change nothing, and each of those that do the same only once.

    What is ``returned`` is made as it is written; those who read several of it that are the same do the same.
    """
    given = [graph.ops[op] for op in ops]
    readers = _Readers(given)
    same: dict[int, int] = {}
    twins = _Twins(graph, same)
    left: list[Op] = []
    for op in given:
        results = op.results
        if not returned.isdisjoint(results):
            twins.tell_alike(op)
            left.append(op)
            continue
        source = _stands_for(op, graph, readers) if op.op_type in NO_OPS else None
        twin = op if source is not None else twins.first(op)
        if source is not None:
            same[results[0]] = same.get(source, source)
        elif twin is not op:
            same.update(zip(results, twin.results, strict=True))
        else:
            left.append(op)
    return Simplified(tuple(left), same)


def vanished(whole: Simplified, left: Simplified) -> Mapping[int, tuple[int, ...]]:
    """By the one op of ``left`` that reads them, the ops that are in ``whole`` alone, in order."""
    gone = {op.id for op in whole.ops} - {op.id for op in left.ops}
    readers: dict[int, set[int]] = {}
    into: dict[int, int] = {}
    for op in reversed(whole.ops if gone else ()):
        users = readers.get(op.results[0], set[int]()) if op.id in gone else ()
        if len(users) == 1:
            (into[op.id],) = users
        for value in op.uses:
            readers.setdefault(whole.value(value), set()).add(into.get(op.id, op.id))
    found: dict[int, tuple[int, ...]] = {}
    for op, reader in into.items():
        found[reader] = (op, *found.get(reader, ()))
    return found


class _Readers:
    """Who reads a value, looked up once somebody asks."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = ops
        self._found: dict[int, list[Op]] = {}

    def of(self, value: int) -> list[Op]:
        """Every op that reads ``value``."""
        if not self._found:
            for op in self._ops:
                for used in op.uses:
                    self._found.setdefault(used, []).append(op)
        return self._found.get(value, [])


class _Twins:
    """Ops that do the same. What they do in full is compared where type and first input are one."""

    def __init__(self, graph: Graph, same: Mapping[int, int]) -> None:
        self._graph = graph
        self._same = same
        self._alike: dict[int, int] = {}
        """Returned values, and the first of those that are the same."""
        self._alone: dict[Hashable, Op | None] = {}
        self._known: dict[Hashable, Op] = {}
        self._returned: dict[Hashable, Op] = {}

    def tell_alike(self, op: Op) -> None:
        """Note what ``op`` makes, which is returned and stays, as the same as what others make that do the same."""
        first = self._returned.setdefault(self._key(op), op)
        if first is not op:
            self._alike.update(zip(op.results, first.results, strict=True))

    def first(self, op: Op) -> Op:
        """The first op that does the same as ``op``; itself if it is that."""
        read = op.inputs[0] if op.inputs else None
        rough = (op.op_type, read if read is None else self._of(read))
        if rough not in self._alone:
            self._alone[rough] = op
            return op
        other, self._alone[rough] = self._alone[rough], None
        if other is not None:
            self._known.setdefault(self._key(other), other)
        return self._known.setdefault(self._key(op), op)

    def _of(self, value: int) -> int:
        """The value that stands for ``value``."""
        kept = self._same.get(value, value)
        return self._alike.get(kept, kept)

    def _key(self, op: Op) -> Hashable:
        graph = self._graph
        if op.op_type in APART or op.bodies or not op.uses or any(is_dequantized(v, graph) for v in op.uses):
            return op.id
        inputs = tuple([None if v is None else self._told(v) for v in op.inputs])
        if _is_told_by_shape(op, graph):
            return (op.op_type, inputs[0], graph.values[op.results[0]].shape)
        present = tuple([v is not None for v in op.outputs])
        return (op.domain, op.op_type, inputs, present, _said(op))

    def _told(self, value: int) -> Hashable:
        kept = self._of(value)
        return kept if value in self._same or kept != value else _equal(value, self._graph)


def _said(op: Op) -> Hashable:
    """Its attributes as ONNX Runtime compares them: in the order that they are written in, what is left out behind."""
    left_out = _usual(op.op_type, op.version, op.domain).items()
    written = [(name, repr(value)) for name, value in op.attributes.items()]
    return (*written, *[(name, text) for name, text in left_out if name not in op.attributes])


@cache
def _usual(op_type: str, version: int, domain: str) -> Mapping[str, str]:
    """What attributes are that nobody writes, as ``repr`` has them, by name."""
    known = onnx.defs.has(op_type, version, domain)
    named = onnx.defs.get_schema(op_type, version, domain).attributes.values() if known else ()
    return {name: repr(value) for name, value in sorted(plain_attributes(one.default_value for one in named).items())}


def is_dequantized(value: int, graph: Graph) -> bool:
    """Whether a dequantizer makes it, of which each reader has one of its own."""
    producer = graph.values[value].producer
    return producer is not None and graph.ops[producer].op_type == "DequantizeLinear"


def _equal(value: int, graph: Graph) -> Hashable:
    """What equal weights have in common: a few elements, or of derived ones what they are made by."""
    known = graph.values[value]
    if known.is_constant and known.content is not None and known.numel <= MOST_SHARED and known.dtype in SHARED:
        return (known.dtype, known.shape, known.content)
    return value if known.same_as is None else known.same_as


def _is_told_by_shape(op: Op, graph: Graph) -> bool:
    made, source = graph.values[op.results[0]], graph.values[op.uses[0]]
    whole = op.op_type == "Slice" and made.shape == source.shape
    return not op.domain and made.is_static and (whole or op.op_type in SHAPED)


def _stands_for(op: Op, graph: Graph, readers: _Readers) -> int | None:
    """The input that the first output of ``op`` equals, or is read for; ``None`` where it does not, or none tells."""
    rule = None if op.domain else NO_OPS.get(op.op_type)
    if rule is None:
        return None
    places = op.inputs[: 2 if op.op_type in COMMUTATIVE else 1]
    source = next((v for v in places if v is not None and not graph.values[v].is_constant), None)
    if source is None or not rule(op, graph, readers):
        return None
    first, *rest = op.results
    return source if readers.of(first) and not any(map(readers.of, rest)) else None


def _always(_: Op, __: Graph, ___: _Readers) -> bool:
    return True


def _same_shape(op: Op, graph: Graph, _: _Readers) -> bool:
    """A part as large as the whole is the whole; inputs of the session are taken as they are written."""
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.producer is not None and before.is_static and after.is_static and before.shape == after.shape


def _whole(op: Op, graph: Graph, readers: _Readers) -> bool:
    """A Slice that ends where its numbers end; one that says how far it goes is looked through by nobody."""
    ends = graph.values[op.inputs[2]].content if len(op.inputs) > 2 and op.inputs[2] is not None else None
    return _same_shape(op, graph, readers) and (ends is None or min(ends) >= _NO_END)


def _changes_nothing(op: Op, graph: Graph, _: _Readers) -> bool:
    """Nothing added or taken away, multiplied or divided by one."""
    before, other = (graph.values[v] if v is not None else None for v in op.inputs)
    if before is None or other is None:
        return False
    flowing, constant = (other, before) if before.is_constant and op.op_type in COMMUTATIVE else (before, other)
    neutral = constant.numel == 1 and constant.content is not None and constant.content[0] == NEUTRAL[op.op_type]
    return constant.is_constant and neutral and flowing.shape == graph.values[op.results[0]].shape


def _same_dtype(op: Op, graph: Graph, _: _Readers) -> bool:
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.dtype == after.dtype != ""


def _swapped(op: Op, _: Graph, readers: _Readers) -> bool:
    """A Where takes what a Not negates and has its branches swapped."""
    return all(_is_condition(op.results[0], reader) for reader in readers.of(op.results[0]))


def _is_condition(value: int, reader: Op) -> bool:
    return reader.op_type == "Where" and not reader.domain and value not in reader.inputs[1:]


COMMUTATIVE = frozenset({"Add", "Mul"})
NEUTRAL: Mapping[str, float] = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
_NO_END = 2**63 - 1

_Rule = Callable[[Op, Graph, _Readers], bool]
NO_OPS: Mapping[str, _Rule] = {
    "Cast": _same_dtype,
    "Dropout": _always,
    "Expand": _same_shape,
    "Identity": _always,
    "Not": _swapped,
    "Slice": _whole,
    **dict.fromkeys(NEUTRAL, _changes_nothing),
}
