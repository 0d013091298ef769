"""What a product on the processor takes longer whose right side is no constant.

ONNX Runtime's matrix kernels (MLAS) read the right side in panels. Constants are laid out so when a session opens, and
everything else in every run: 32 × 1024 × 1024 took 0.28 ms with a constant and 0.42 ms without, on one core.
"""

from __future__ import annotations

from hetpart.cost_model.roofline import stream_rate
from hetpart.devices import Device, Provider
from hetpart.graph.ir import Graph, Op

PACKED = frozenset({"FusedMatMul", "Gemm", "MatMul"})


def packing_seconds(op: Op, graph: Graph, device: Device) -> float:
    """Seconds of reading and writing the right side of ``op``, where it is one matrix that is no constant.

    A run that does without the op's work does without that too.
    """
    if device.provider is not Provider.CPU or op.op_type not in PACKED or len(op.inputs) < 2 or op.inputs[1] is None:
        return 0.0
    right = graph.values[op.inputs[1]]
    if right.shape is None or len(right.shape) > 2 or _is_fixed(right.id, graph):
        return 0.0
    return op.usage.probability * 2 * right.nbytes / stream_rate(device)


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
