"""What ONNX Runtime's optimiser takes out of a graph before anything is fused: no-ops, and what is computed twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from hetpart.graph.ir import Graph, Op

RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike", "Dropout"})
"""The same op on the same input makes another value."""
SHAPED = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
"""What they make is told by its shape: constants that say the same are often stored more than once."""


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


def simplified(graph: Graph, ops: Iterable[int], returned: frozenset[int]) -> Simplified:
    """``ops`` without those that change nothing, and each of those that do the same only once.

    What is ``returned`` is made as it is written.
    """
    given = [graph.ops[op] for op in ops]
    readers = _readers(given)
    same: dict[int, int] = {}
    known: dict[Hashable, Op] = {}
    left: list[Op] = []
    for op in given:
        if returned & set(op.results):
            left.append(op)
            continue
        source, twin = _stands_for(op, graph, readers), known.setdefault(_key(op, graph, same), op)
        if source is not None:
            same[op.results[0]] = same.get(source, source)
        elif twin is not op:
            same.update(zip(op.results, twin.results, strict=True))
        else:
            left.append(op)
    return Simplified(tuple(left), same)


def _readers(ops: Iterable[Op]) -> Mapping[int, list[Op]]:
    """Every op that reads a value."""
    found: dict[int, list[Op]] = {}
    for op in ops:
        for value in op.uses:
            found.setdefault(value, []).append(op)
    return found


def _key(op: Op, graph: Graph, same: Mapping[int, int]) -> Hashable:
    if op.op_type in RANDOM or op.bodies or not op.uses:
        return op.id
    inputs = tuple(None if v is None else same.get(v, v) for v in op.inputs)
    if _is_told_by_shape(op, graph):
        return (op.op_type, inputs[0], graph.values[op.results[0]].shape)
    present = tuple(v is not None for v in op.outputs)
    return (op.domain, op.op_type, inputs, present, tuple(sorted((k, repr(v)) for k, v in op.attributes.items())))


def _is_told_by_shape(op: Op, graph: Graph) -> bool:
    made, source = graph.values[op.results[0]], graph.values[op.uses[0]]
    whole = op.op_type == "Slice" and made.shape == source.shape
    return not op.domain and made.is_static and (whole or op.op_type in SHAPED)


_Readers = Mapping[int, list[Op]]


def _stands_for(op: Op, graph: Graph, readers: _Readers) -> int | None:
    """The input that the first output of ``op`` equals, or is read for; ``None`` where it does not, or none tells."""
    rule = None if op.domain else NO_OPS.get(op.op_type)
    source = op.inputs[0] if op.inputs else None
    read = [value for value in op.results if value in readers]
    if rule is None or source is None or read != [*op.results[:1]] or graph.values[source].is_constant:
        return None
    return source if rule(op, graph, readers[read[0]]) else None


def _always(_: Op, __: Graph, ___: list[Op]) -> bool:
    return True


def _same_shape(op: Op, graph: Graph, _: list[Op]) -> bool:
    """A part as large as the whole is the whole; inputs of the session are taken as they are written."""
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.producer is not None and before.is_static and after.is_static and before.shape == after.shape


def _same_dtype(op: Op, graph: Graph, _: list[Op]) -> bool:
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.dtype == after.dtype != ""


def _swapped(op: Op, _: Graph, readers: list[Op]) -> bool:
    """A Where takes what a Not negates and has its branches swapped."""
    return all(_is_condition(op.results[0], reader) for reader in readers)


def _is_condition(value: int, reader: Op) -> bool:
    return reader.op_type == "Where" and not reader.domain and value not in reader.inputs[1:]


_Rule = Callable[[Op, Graph, list[Op]], bool]
NO_OPS: Mapping[str, _Rule] = {
    "Cast": _same_dtype,
    "Dropout": _always,
    "Expand": _same_shape,
    "Identity": _always,
    "Not": _swapped,
    "Slice": _same_shape,
}
