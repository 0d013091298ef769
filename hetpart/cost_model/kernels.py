"""Which provider has a kernel for an op, and which operands its CUDA kernel keeps in host memory."""

from __future__ import annotations

from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

CUDA_HOST_INPUTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Slice": (1, 2, 3, 4), "Tile": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2),
    "Pad": (1, 2, 3), "Squeeze": (1,), "Unsqueeze": (1,), "Resize": (1, 2, 3), "TopK": (1,), "OneHot": (1,),
}  # fmt: skip


def missing_kernel(_provider: Provider, _op: Op, _graph: Graph) -> str | None:
    """Why ``provider`` cannot run ``op``; None where it has a kernel."""
    return None


def host_inputs(op: Op, _graph: Graph) -> frozenset[int]:
    """Positions of the inputs that the CUDA kernel of ``op`` reads from host memory."""
    return frozenset(CUDA_HOST_INPUTS.get(op.op_type, ()))


def host_outputs(op: Op) -> frozenset[int]:
    """Positions of the outputs that the CUDA kernel of ``op`` leaves in host memory."""
    return frozenset({0}) if op.op_type in ("Shape", "Size") else frozenset()
