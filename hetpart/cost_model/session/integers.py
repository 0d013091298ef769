"""Kernels that compute on bytes: which of them go with channels last, and what they read.

ONNX Runtime transposes what a convolution of bytes reads and makes, and pushes the Transposes through kernels that go
with any order, until they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetpart.cost_model.session.layout import IMAGE_RANK, is_image
from hetpart.cost_model.session.rewired.orders import Order, written_order
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Graph, Op

QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})
BYTES = frozenset({"int8", "uint8"})
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders of Transposes that put the channels of images last, and back."""
POOLS = frozenset({"MaxPool"})
ANY_ORDER = POOLS | {"Add", "AveragePool", "Concat", "GlobalAveragePool", "LeakyRelu", "Mul", "Sigmoid"}
"""Ops of bytes that ONNX Runtime pushes Transposes through, which put channels first behind a convolution."""


def convolves_bytes(members: tuple[Op, ...]) -> bool:
    """Whether the kernel is a QLinearConv, with channels last: ONNX Runtime transposes what it reads and makes."""
    last = members[-1]
    on_integers = last.op_type == "QuantizeLinear" and any(op.op_type == "Conv" for op in members)
    return on_integers or (last.op_type == "QLinearConv" and not last.domain)


def turns(members: tuple[Op, ...], order: Order, graph: Graph) -> bool:
    """Whether they are a Transpose of images, or of bytes between quantizers, in this order."""
    found = [op for op in members if op.op_type not in QUANTIZERS]
    if len(found) != 1 or found[0].op_type != "Transpose" or found[0].domain or written_order(found[0]) != order:
        return False
    image = graph.values[found[0].uses[0]]
    return is_image(image) or (image.dtype in BYTES and len(image.shape or ()) == IMAGE_RANK)


def is_of_any_order(members: tuple[Op, ...], graph: Graph) -> bool:
    """Whether the kernel computes on bytes, with channels last where its images lie so."""
    last = members[-1]
    if graph.values[last.results[0]].dtype not in BYTES:
        return False
    if len(members) == 1:
        return last.op_type.removeprefix("QLinear") in (ANY_ORDER if last.domain else POOLS)
    return last.op_type == "QuantizeLinear" and any(op.op_type in ANY_ORDER for op in members)


def is_on_the_way(members: tuple[Op, ...], graph: Graph) -> bool:
    """Whether the kernel lies between some of bytes: quantization, other sizes of images, and their means."""
    op = members[-1]
    if len(members) > 1 or op.domain:
        return False
    if op.op_type == "Resize":
        return len(graph.values[op.uses[0]].shape or ()) == IMAGE_RANK
    if op.op_type != "ReduceMean":
        return op.op_type in ("DequantizeLinear", "QuantizeLinear")
    before, after = (graph.values[value].shape or () for value in (op.uses[0], op.results[0]))
    return len(before) == len(after) == IMAGE_RANK and after == (*before[:2], 1, 1)


def wanted_last(
    groups: Sequence[tuple[Op, ...]], reads: Callable[[tuple[Op, ...]], tuple[int, ...]], graph: Graph
) -> frozenset[int]:
    """Values from which kernels that go with any order of channels lead to a convolution of bytes.

    Args:
        groups: Ops that share a kernel, of all kernels in order.
        reads: What a kernel reads.
        graph: What they are of.
    """
    found: set[int] = set()
    for members in reversed(groups):
        passes = is_of_any_order(members, graph) or is_on_the_way(members, graph)
        if convolves_bytes(members) or (passes and not found.isdisjoint(members[-1].results)):
            found.update(reads(members))
    return frozenset(found)


def computed_on_integers(members: tuple[Op, ...]) -> Op | None:
    """The op that the kernel computes on what stands behind quantization, if it is one of those."""
    if len(members) == 1 or members[-1].op_type != "QuantizeLinear":
        return None
    return next((op for op in members if op.op_type not in QUANTIZERS), None)


def before_dequantized(value: int, graph: Graph, simple: Simplified) -> int:
    """What is dequantized to ``value``, whoever else reads that; itself where nothing is."""
    maker = graph.values[value].producer
    op = None if maker is None else graph.ops[maker]
    source = op.inputs[0] if op is not None and op.op_type == "DequantizeLinear" else None
    return value if source is None else simple.value(source)
