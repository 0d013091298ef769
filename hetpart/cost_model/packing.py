"""What a product on the processor takes longer whose right side is no constant.

ONNX Runtime's matrix kernels (MLAS) read the right side in panels. Constants are laid out so when a session opens, and
everything else in every run: 32 × 1024 × 1024 took 0.28 ms with a constant and 0.42 ms without, on one core. One row,
or one column, is multiplied with the matrix as it lies.
"""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import estimated_shape
from hetpart.cost_model.roofline import stream_rate
from hetpart.devices import Device, Provider
from hetpart.graph.ir import Graph, Op

PACKED = frozenset({"FusedMatMul", "Gemm", "MatMul"})

MATRIX_RANK = 2
SINGLE_DTYPES = frozenset({"float16", "float32"})
"""That are multiplied as float32; MLAS has no such kernel for others."""


def packing_seconds(op: Op, graph: Graph, device: Device) -> float:
    """Seconds of reading and writing the right side of ``op``, where it is one matrix that is no constant.

    A run that does without the op's work does without that too.
    """
    if device.provider is not Provider.CPU or op.op_type not in PACKED or len(op.inputs) < 2 or op.inputs[1] is None:
        return 0.0
    right = graph.values[op.inputs[1]]
    if right.shape is None or len(right.shape) != MATRIX_RANK or _is_fixed(right.id, graph):
        return 0.0
    if is_single(op, graph):
        return 0.0
    return op.usage.probability * 2 * right.nbytes / stream_rate(device)


def is_single(op: Op, graph: Graph) -> bool:
    """Whether ``op`` multiplies one row, or one column, by a matrix that no session has laid out.

    ``MlasSgemmOperation`` of ONNX Runtime's ``sgemm.cpp`` does that without a factor alone.
    """
    right, made = (graph.values[value or 0] for value in (op.inputs[1], op.outputs[0]))
    shape = estimated_shape(right)
    if len(shape) != MATRIX_RANK or right.dtype not in SINGLE_DTYPES or op.attributes.get("alpha", 1.0) != 1.0:
        return False
    turned = [bool(op.attributes.get(name, 0)) for name in ("transA", "transB")]
    columns = shape[0 if turned[1] else 1]
    row = not turned[0] and made.numel == columns
    return (row or (columns == 1 and not turned[1])) and not _is_fixed(right.id, graph)


def _is_fixed(number: int, graph: Graph) -> bool:
    """Whether sessions fold it to a constant."""
    waiting, seen = [number], set[int]()
    while waiting:
        value = graph.values[waiting.pop()]
        if value.is_constant or value.id in seen:
            continue
        seen.add(value.id)
        if value.producer is None:
            return False
        made = graph.ops[value.producer]
        if not made.uses:
            return False
        waiting += made.uses
    return True
