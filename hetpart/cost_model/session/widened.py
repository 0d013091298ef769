"""Which ops of a session compute in float32 what the model has in half precision, for want of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hetpart.cost_model.kernels import is_function, is_left_to_runs, lacks_half
from hetpart.graph.ir import Graph, Op, Value, ValueRole

if TYPE_CHECKING:
    import onnx

LOOKED_AT: Mapping[str, int] = dict.fromkeys(("Concat", "Einsum", "Max", "Mean", "Min", "Split", "Sum"), 1)
"""Inputs and outputs of ops with any number of one or the other by which ONNX Runtime tells what stands among what."""
HALVES, SINGLE = frozenset({"float16", "bfloat16"}), "float32"
WIDENED_IN_MODEL = "bfloat16"
"""What hetpart has casts for written into a model; ONNX Runtime puts them in for float16 alone."""


def widened(ops: Iterable[Op], graph: Graph, returned: frozenset[int]) -> frozenset[int]:
    """Ids of the ops that the CPU provider runs in float32: ONNX Runtime casts what goes in, and back what comes out.

    Between two of them no cast is left. An op that has a kernel, but stands among such ops alone, is one of them: so
    are those behind it, in the order of the model, that stand among it and them. Of inputs and outputs that may be any
    number ONNX Runtime looks at the first, and what no op makes may come as it is.
    """
    all_ops = tuple(ops)
    given = [op for op in all_ops if any(_is_half(v, graph) for v in (*op.uses, *op.results))]
    wide = {op.id for op in given if lacks_half(op, graph)}
    if not wide:
        return frozenset()
    maker = {value: op.id for op in all_ops for value in op.results}
    users: dict[int, list[int]] = {}
    for op in given:
        for value in op.uses:
            users.setdefault(value, []).append(op.id)
    wide |= {op.id for op in given if _turns_for(wide, op, users, graph) and returned.isdisjoint(op.results)}

    def is_alone(op: Op) -> bool:
        read, made = (
            [v for v in values if v is not None and _is_half(v, graph)]
            for values in (op.inputs[: LOOKED_AT.get(op.op_type)], op.outputs[: LOOKED_AT.get(op.op_type)])
        )
        inside = read and made and returned.isdisjoint(op.results) and any(v in maker for v in op.uses)
        among = all(maker[v] in wide for v in read if v in maker)
        return bool(inside) and among and all(user in wide for v in made for user in users.get(v, ()))

    for op in given:
        if op.id not in wide and not op.bodies and is_alone(op):
            wide.add(op.id)
    return frozenset(wide)


def _turns_for(wide: set[int], op: Op, users: Mapping[int, Sequence[int]], graph: Graph) -> bool:
    """Whether ``op`` is a Transpose that ``wide`` ops alone read, of which hetpart makes one of floats."""
    if op.op_type != "Transpose" or op.domain or graph.values[op.uses[0]].dtype != WIDENED_IN_MODEL:
        return False
    return wide.issuperset(users.get(op.results[0], ()))


def half_body(op: Op, graph: Graph) -> Graph | None:
    """The ops that stand for one without a kernel for half precision, which is a function of them."""
    if not is_function(op) or not lacks_half(op, graph):
        return None
    from hetpart.graph.schema_body import schema_body

    return schema_body(op, graph, is_left_to_runs)


def as_floats(graph: Graph) -> Graph:
    """``graph`` in float32 where it is in half precision."""
    return replace(graph, values=tuple([_in_float(v) if v.dtype in HALVES else v for v in graph.values]))


def _in_float(value: Value) -> Value:
    return replace(value, dtype=SINGLE, nbytes=2 * value.nbytes)


def cast_once(graph: Graph, ops: Iterable[Op], wide: frozenset[int]) -> frozenset[tuple[int, int]]:
    """Weights in half precision, and the one op of ``wide`` that reads each: it is cast when a session is made."""
    readers = _wide_readers(graph, ops, wide)
    return frozenset((value, ids[0]) for value, ids in readers.items() if len(ids) == 1)


def with_cast_weights(graph: Graph, ops: Iterable[Op], wide: frozenset[int]) -> Graph:
    """``graph`` where weights in half precision that several ``wide`` ops read flow: they are cast in every run."""
    readers = _wide_readers(graph, ops, wide) if wide else {}
    shared = {value for value, ids in readers.items() if len(ids) > 1}
    if not shared:
        return graph
    values = [replace(v, role=ValueRole.INPUT, content=None) if v.id in shared else v for v in graph.values]
    return replace(graph, values=tuple(values))


def _wide_readers(graph: Graph, ops: Iterable[Op], wide: frozenset[int]) -> dict[int, list[int]]:
    """By constant in half precision, ids of the ``wide`` ops that read it."""
    found: dict[int, list[int]] = {}
    for op in ops:
        for value in dict.fromkeys(op.uses if op.id in wide else ()):
            if graph.values[value].is_constant and _is_half(value, graph):
                found.setdefault(value, []).append(op.id)
    return found


def cancelled(ops: Iterable[Op], graph: Graph, wide: frozenset[int], returned: frozenset[int]) -> frozenset[int]:
    """Ids of the Casts to float16 that nothing reads but ``wide`` ops, which would cast it back."""
    if not wide:
        return frozenset()
    given = tuple(ops)
    plain = {value for op in given if op.id not in wide for value in op.uses} | returned
    casts = (op for op in given if op.op_type == "Cast" and not op.domain and _narrows(op, graph))
    casts = (op for op in casts if graph.values[op.results[0]].dtype != WIDENED_IN_MODEL)
    return frozenset(op.id for op in casts if plain.isdisjoint(op.results))


def there_and_back(ops: Iterable[Op], graph: Graph, returned: frozenset[int]) -> frozenset[int]:
    """Ids of the Casts from half precision that nothing reads but Casts back to it, and of those: neither is left."""
    casts = [op for op in ops if op.op_type == "Cast" and not op.domain]
    if not any(value.dtype in HALVES for value in graph.values):
        return frozenset()
    readers: dict[int, list[Op]] = {}
    for op in ops:
        for value in op.uses:
            readers.setdefault(value, []).append(op)
    found: set[int] = set()
    for there in (op for op in casts if _is_half(op.uses[0], graph) and returned.isdisjoint(op.results)):
        dtype = graph.values[there.uses[0]].dtype
        backs = readers.get(there.results[0], [])
        back = [op for op in backs if _casts_to(dtype, op, graph) and returned.isdisjoint(op.results)]
        if back and len(back) == len(backs) and graph.values[there.results[0]].dtype in (SINGLE, "float64"):
            found.update((there.id, *(op.id for op in back)))
    return frozenset(found)


def _casts_to(dtype: str, op: Op, graph: Graph) -> bool:
    return op.op_type == "Cast" and not op.domain and graph.values[op.results[0]].dtype == dtype


def cast_back(
    graph: Graph, ops: Iterable[Op], wide: frozenset[int], returned: frozenset[int]
) -> tuple[Graph, frozenset[int]]:
    """``graph`` where what ``wide`` ops make for each other and for Casts alone is in float32, as it is computed.

    Beside it the ids of the Casts to float32, which find it so.
    """
    if not wide:
        return graph, frozenset()
    given = tuple(ops)
    casts = {op.id: op for op in given if op.op_type == "Cast" and not op.domain and _is_half(op.uses[0], graph)}
    casts = {number: op for number, op in casts.items() if number not in wide}
    halves = HALVES - {WIDENED_IN_MODEL}  # what is cast by nodes of the model ONNX Runtime leaves so
    made = {v for op in given if op.id in wide for v in op.results if graph.values[v].dtype in halves} - returned
    made -= {v for op in given if op.id not in wide and op.id not in casts for v in op.uses}
    kept = made & {op.uses[0] for op in casts.values()}
    if not kept:
        return graph, frozenset()
    values = tuple([_in_float(v) if v.id in kept else v for v in graph.values])
    gone = (op for op in casts.values() if op.uses[0] in kept and graph.values[op.results[0]].dtype == SINGLE)
    return replace(graph, values=values), frozenset(op.id for op in gone)


def _narrows(cast: Op, graph: Graph) -> bool:
    return graph.values[cast.uses[0]].dtype == SINGLE and _is_half(cast.results[0], graph)


def _is_half(value: int, graph: Graph) -> bool:
    return graph.values[value].dtype in HALVES


def widened_names(graph: Graph, model: onnx.ModelProto) -> frozenset[str]:
    """Names of the nodes of ``model`` in bfloat16 that the CPU provider has no kernel for, those on weights alone too.

    ONNX Runtime widens float16 alone.
    """
    ops = {op.name: op for op in graph.ops}
    values = {value.name: value for value in graph.values}
    found: set[str] = set()
    for node in model.graph.node:
        named = [values[name] for name in (*node.input, *node.output) if name in values]
        if any(value.dtype == WIDENED_IN_MODEL for value in named):
            op = ops.get(node.name) or _of_weights(node, values, graph)
            found |= {node.name} if lacks_half(op, graph) else set()
    return frozenset(found)


def _of_weights(node: onnx.NodeProto, values: Mapping[str, Value], graph: Graph) -> Op:
    """A node that is no op of the graph, as what it makes is constant, as one."""
    inputs, outputs = (
        tuple([values[name].id if name in values else None for name in names]) for names in (node.input, node.output)
    )
    domain = "" if node.domain == "ai.onnx" else node.domain
    return Op(
        id=-1, name=node.name, domain=domain, op_type=node.op_type, version=graph.opset if not domain else 1,
        inputs=inputs, outputs=outputs, captures=(), attributes={}, scope="", bodies=(),
    )  # fmt: skip
