"""Weights that ONNX Runtime's CPU provider holds in a form of its own, packed anew when a session is made."""

from __future__ import annotations

from hetpart.graph.ir import DTYPE_BITS, Graph, Value

PACKED_INPUT = 1
PRODUCTS = frozenset({"Gemm", "MatMul"})
COLUMNS = 16
"""Columns that a packed matrix is padded to."""


def packed_bytes(graph: Graph) -> int:
    """Bytes of the packed copies of constant matrices, each once. What they are made from is not held beside them."""
    packed: dict[int, int] = {}
    for op in graph.ops:
        second = op.inputs[PACKED_INPUT] if len(op.inputs) > PACKED_INPUT else None
        if op.op_type in PRODUCTS and not op.domain and second is not None:
            columns = 0 if op.op_type == "Gemm" and op.attributes.get("transB") else -1
            packed[second] = _packed(graph.values[second], columns)
    return sum(packed.values())


def _packed(weight: Value, columns: int) -> int:
    sizes = [size or 0 for size in weight.shape or ()]
    if not weight.is_constant or weight.dtype != "float32" or len(sizes) != 2:
        return 0
    padded = -(-sizes[columns] // COLUMNS) * COLUMNS
    return sizes[-1 - columns] * padded * DTYPE_BITS[weight.dtype] // 8
