"""What the CPU provider of ONNX Runtime calls the kernels of a session: their types in its profile."""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.cost_model.fusion import Fusions
from hetpart.cost_model.session.inlined import WIDE_BLOCKS
from hetpart.cost_model.session.integers import BYTES, POOLS, convolves_bytes
from hetpart.cost_model.session.merge import ACTIVATIONS, PARTS
from hetpart.cost_model.session.reuse import Kernel
from hetpart.cost_model.session.widened import HALVES
from hetpart.graph.ir import Graph, Op

AS_CONVOLUTIONS = frozenset({"BatchNormalization", "Mul"})
"""On channels in blocks they are convolutions of every channel by itself."""


GATES = 1
"""By how many times the count of values the number of a gate is lowered."""
ENLARGING = frozenset({"Resize", "Upsample"})
INLINED: Mapping[str, str] = {"CastLike": "Cast"}
"""Ops without a kernel, of which ONNX Runtime runs the one that their body is."""


def kernel_type(kernel: Kernel, graph: Graph, fusions: Fusions) -> str:
    """The type of the node that ONNX Runtime runs ``kernel`` as; of several the one that changes no shape."""
    kind = kernel.op_type or _type(kernel, graph, fusions)
    return INLINED.get(kind, kind)


def _type(kernel: Kernel, graph: Graph, fusions: Fusions) -> str:
    if not kernel.ops:
        return _between(kernel, graph)
    members = [graph.ops[op] for op in kernel.ops]
    types = {op.op_type for op in members}
    if len(members) > 1 and types <= PARTS:
        return "Split"
    in_blocks = any(_is_blocked(made.value, graph) for made in kernel.makes)
    last = members[-1]
    kind = fusions.kernels.get(last.id, last.op_type)
    if graph.values[last.results[0]].dtype in BYTES:
        return _of_bytes(tuple(members), kind, last=in_blocks)
    if "Conv" in types and len(members) > 1 and not in_blocks:
        return "FusedConv" if types & ACTIVATIONS else "Conv"  # what else it takes over is in its weights
    if in_blocks and (types <= AS_CONVOLUTIONS or "Conv" in types):
        return "Conv"
    return "Upsample" if in_blocks and types <= ENLARGING else kind


def _of_bytes(members: tuple[Op, ...], kind: str, *, last: bool) -> str:
    """Of a kernel that makes bytes, with channels ``last`` or not."""
    if convolves_bytes(members):
        return "QLinearConv"
    return f"Nhwc{kind}" if last and kind in POOLS else kind


def _between(kernel: Kernel, graph: Graph) -> str:
    """Of a kernel that changes the form of a value."""
    (value,), (made,) = kernel.reads, kernel.makes
    if graph.values[(-1 - made.value if made.value < 0 else made.value) % len(graph.values)].dtype in BYTES:
        return "Transpose"
    if _is_blocked(made.value, graph):
        return "ReorderInput"
    return "ReorderOutput" if _is_blocked(value, graph) else "Cast"


def _is_blocked(number: int, graph: Graph) -> bool:
    """Whether it is that of a value in blocks, or with channels last; the others below zero are in float32."""
    lowered, value = divmod(-1 - number, len(graph.values))
    return number < 0 and lowered != GATES and (lowered == WIDE_BLOCKS) == (graph.values[value].dtype in HALVES)
