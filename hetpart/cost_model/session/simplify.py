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
    same: dict[int, int] = {}
    known: dict[Hashable, Op] = {}
    left: list[Op] = []
    for op in (graph.ops[op] for op in ops):
        if returned & set(op.results):
            left.append(op)
            continue
        source, twin = _stands_for(op, graph), known.setdefault(_key(op, graph, same), op)
        if source is not None:
            same[op.results[0]] = same.get(source, source)
        elif twin is not op:
            same.update(zip(op.results, twin.results, strict=True))
        else:
            left.append(op)
    return Simplified(tuple(left), same)


def _key(op: Op, graph: Graph, same: Mapping[int, int]) -> Hashable:
    if op.op_type in RANDOM or op.bodies or not op.uses:
        return op.id
    inputs = tuple(None if v is None else same.get(v, v) for v in op.inputs)
    if op.op_type in SHAPED and not op.domain and graph.values[op.results[0]].is_static:
        return (op.op_type, inputs[0], graph.values[op.results[0]].shape)
    present = tuple(v is not None for v in op.outputs)
    return (op.domain, op.op_type, inputs, present, tuple(sorted((k, repr(v)) for k, v in op.attributes.items())))


def _stands_for(op: Op, graph: Graph) -> int | None:
    """The input that the output of ``op`` equals; ``None`` where it does not, or only a run can tell."""
    rule = None if op.domain else NO_OPS.get(op.op_type)
    source = op.inputs[0] if op.inputs else None
    if rule is None or source is None or len(op.results) != 1 or graph.values[source].is_constant:
        return None
    return source if rule(op, graph) else None


def _always(_: Op, __: Graph) -> bool:
    return True


def _same_shape(op: Op, graph: Graph) -> bool:
    """A part as large as the whole is the whole."""
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.is_static and after.is_static and before.shape == after.shape


def _same_dtype(op: Op, graph: Graph) -> bool:
    before, after = graph.values[op.uses[0]], graph.values[op.results[0]]
    return before.dtype == after.dtype != ""


def _identity(op: Op, _: Graph) -> bool:
    axes = op.attributes.get("perm")
    return isinstance(axes, tuple) and list(axes) == sorted(axes, key=float)


NO_OPS: Mapping[str, Callable[[Op, Graph], bool]] = {
    "Cast": _same_dtype,
    "Dropout": _always,
    "Expand": _same_shape,
    "Identity": _always,
    "Slice": _same_shape,
    "Transpose": _identity,
}
