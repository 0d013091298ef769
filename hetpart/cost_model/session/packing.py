"""Weights as sessions of ONNX Runtime's CPU provider hold them: in a form of its own, made when a session is made.

Measured on ONNX Runtime 1.31.1 with its own count (``mem_bytes_in_use`` before the first node) for every width from 1
to 70 and thirteen depths: the columns of a float32 matrix are padded to 16, its rows are not; float64 and matrices of a
batch stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from hetpart.cost_model.session.widened import HALVES, SINGLE, cast_once, widened
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op, Value

_Sizes = tuple[int, ...]
_Rule = Callable[[_Sizes, Op], int]
COLUMNS = 16
"""Columns that a packed matrix is padded to."""
DEPTH = 4
"""Rows that one of bytes is padded to."""
FLOAT_BYTES = SUM_BYTES = 4
PLAIN, CAST = "", "cast"
"""What are called the form in the file, and that of half precision in float32."""
_LINE = 64
_BYTES = frozenset({"int8", "uint8"})
_MATRIX = 2
_LSTM, _GRU, _GRU_GATES = 4, 3, 2
"""Gates that are packed together. Of what a GRU multiplies its state by, the last one is packed by itself."""


def _padded(size: int, to: int) -> int:
    return -(-size // to) * to


def _matrix(sizes: _Sizes, op: Op) -> int:
    """Of the right side of a product."""
    if len(sizes) != _MATRIX:
        return 0
    inner, columns = reversed(sizes) if op.op_type == "Gemm" and op.attributes.get("transB") else sizes
    return FLOAT_BYTES * inner * _padded(columns, COLUMNS)


def _byte_matrix(sizes: _Sizes, op: Op) -> int:
    """With a sum beside every column."""
    del op
    if len(sizes) != _MATRIX:
        return 0
    inner, columns = _padded(sizes[0], DEPTH), _padded(sizes[1], COLUMNS)
    return _padded(columns * (inner + SUM_BYTES), _LINE)


def _gates(*shares: int) -> _Rule:
    """Of matrices with a row for every unit of all gates; ``shares`` of the gates are packed together."""

    def rule(sizes: _Sizes, op: Op) -> int:
        del op
        directions, rows, inner = sizes
        units = rows // sum(shares)
        return FLOAT_BYTES * directions * inner * sum(_padded(share * units, COLUMNS) for share in shares)

    return rule


_Table = Mapping[str, Mapping[int, _Rule]]
_FLOATS: _Table = {
    "Gemm": {1: _matrix},
    "MatMul": {1: _matrix},
    "LSTM": {1: _gates(_LSTM), 2: _gates(_LSTM)},
    "GRU": {1: _gates(_GRU), 2: _gates(_GRU_GATES, _GRU - _GRU_GATES)},
}
_INTEGERS: _Table = {
    "MatMulInteger": {1: _byte_matrix},
    "QLinearMatMul": {3: _byte_matrix},
}
"""What the CPU provider packs, by operator of ONNX and input."""
PACKED_INPUTS: Mapping[str, frozenset[int]] = {
    name: frozenset(rules) for table in (_FLOATS, _INTEGERS) for name, rules in table.items()
}
"""The same, without how."""


def turned_in_arena(graph: Graph, ops: Iterable[int], provider: Provider) -> tuple[int, ...]:
    """Bytes of the filters that a session of ``ops`` holds turned, in the arena that its runs take from.

    They are a ``ConvTranspose``'s, in its place of the weights; other packed copies lie in memory of their own.
    """
    if provider is not Provider.CPU:
        return ()
    named = (graph.ops[op] for op in ops)
    filters = ((op, graph.values[op.uses[1]]) for op in named if op.op_type == "ConvTranspose" and not op.domain)
    return tuple(value.nbytes for op, value in filters if value.is_constant and _is_turned(value, op))


def _is_turned(filters: Value, op: Op) -> bool:
    """Whether there are rows and columns to be turned, in each group."""
    sizes, groups = [size or 0 for size in filters.shape or ()], op.attributes.get("group", 1)
    assert isinstance(groups, int)
    return filters.dtype == SINGLE and len(sizes) > _MATRIX and sizes[0] > groups and prod(sizes[1:]) > 1


def packed_bytes(graph: Graph) -> int:
    """Bytes of the packed copies of constants. What they are made from is not held beside them for ops that pack it."""
    forms = _forms(graph)
    given = (PLAIN, CAST)
    return sum(n for value in graph.weights for form, n in forms[value.id].items() if form not in given)


def held_bytes(graph: Graph, provider: Provider) -> tuple[int, ...]:
    """Bytes of each weight of ``graph`` as a session of ``provider`` holds it, in every form that some op reads."""
    if provider is not Provider.CPU:
        return tuple(weight.nbytes for weight in graph.weights)
    forms = _forms(graph)
    return tuple(sum(forms[weight.id].values()) or weight.nbytes for weight in graph.weights)


def inner_bytes(op: Op, provider: Provider) -> int:
    """The same of all weights that are inside the bodies of ``op``."""
    return sum(
        sum(held_bytes(body, provider)) + sum(inner_bytes(inside, provider) for inside in body.ops)
        for body in op.bodies
    )


def _forms(graph: Graph) -> dict[int, dict[str, int]]:
    """By value, the forms that ops would hold it in if it were constant, with their bytes. Bodies read it too."""
    found: dict[int, dict[str, int]] = {value.id: {} for value in graph.values}
    wide = _widened(graph)
    for op in graph.ops:
        for slot, place in enumerate(op.inputs):
            if place is not None:
                found[place] |= _form(op, slot, graph.values[place], wide=(place, op.id) in wide)
        captured = {graph.values[value].name: value for value in op.captures}
        for body in op.bodies:
            for inside, forms in _forms(body).items():
                name = body.values[inside].name
                if name in captured and inside in body.inputs:
                    found[captured[name]] |= forms
    return found


def _form(op: Op, slot: int, value: Value, *, wide: bool) -> dict[str, int]:
    """The form that ``op`` reads an input in."""
    plain = {CAST: 2 * value.nbytes} if wide else {PLAIN: value.nbytes}
    table = _INTEGERS if value.dtype in _BYTES else _FLOATS
    known = not op.domain and (wide or value.dtype in {SINGLE, *_BYTES})
    rule = table.get(op.op_type, {}).get(slot) if known else None
    if rule is None or not value.is_static or value.shape is None:
        return plain
    nbytes = rule(tuple(size or 0 for size in value.shape), op)
    turned = " turned" if op.attributes.get("transB") else ""
    return {f"{rule.__name__}{turned}": nbytes} if nbytes else plain


def _widened(graph: Graph) -> frozenset[tuple[int, int]]:
    """Weights in half precision that are cast to float32 once, and the op that they are cast for."""
    if not any(value.is_constant and value.dtype in HALVES for value in graph.values):
        return frozenset()
    return cast_once(graph, graph.ops, widened(graph.ops, graph, frozenset(graph.outputs)))
