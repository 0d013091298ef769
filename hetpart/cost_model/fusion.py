"""Groups of ops that ONNX Runtime runs as one kernel when they share a session.

Only what its optimiser is known to fuse is grouped, and only where every value inside a group stays inside: all members
but one, the last, feed members alone. Such a group is convex, so it can always be placed on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetpart.cost_model.patterns import patterns
from hetpart.cost_model.sums import MATRIX, adds_bias, is_gemm, is_row_sum, is_skip, rank
from hetpart.cost_model.updates import in_place_on
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

EVERYWHERE = frozenset({Provider.CPU, Provider.CUDA})
ON_CPU = frozenset({Provider.CPU})
NOWHERE: frozenset[Provider] = frozenset()

CONV_ACTIVATIONS = ("Clip", "HardSigmoid", "LeakyRelu", "Sigmoid", "Tanh")
GEMM_ACTIVATIONS = ("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
QUANTIZED_ON_CPU = frozenset({
    "Add", "AveragePool", "Concat", "Conv", "Gemm", "GlobalAveragePool", "LeakyRelu", "MatMul", "MaxPool", "Mul",
    "Relu", "Reshape", "Resize", "Sigmoid", "Softmax", "Split", "Squeeze", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Ops the CPU provider computes on integers when dequantized inputs and a quantized output stand around them."""


@dataclass(frozen=True, slots=True)
class Fusions:
    """What is fused in a graph, op by op."""

    groups: tuple[int, ...]
    """Smallest op id of the group each op belongs to; its own id when alone."""
    absorbed: tuple[frozenset[Provider], ...]
    """Providers on which the op's output is never written: another member's kernel takes it over."""
    in_place: tuple[frozenset[Provider], ...]
    """Providers on which the op writes a few elements over its first input, and copies none."""


def find_fusions(graph: Graph) -> Fusions:
    """What ONNX Runtime fuses in ``graph`` when all of it runs in one session."""
    wiring = Wiring.of(graph)
    absorbed = [NOWHERE] * len(graph.ops)
    parents = list(range(len(graph.ops)))
    for members in patterns(wiring):
        last, integers = max(members), any(graph.ops[member].op_type == "MatMulInteger" for member in members)
        for member in members - {last}:
            absorbed[member] = ON_CPU if integers else EVERYWHERE
            _join(parents, member, last)
    for op in graph.ops:
        consumer = wiring.sole_consumer(op)
        providers = NOWHERE if consumer is None else _epilogue(op, consumer, wiring)
        if consumer is not None and providers:
            absorbed[op.id] |= providers
            _join(parents, op.id, consumer.id)
    in_place = tuple(in_place_on(op, wiring) for op in graph.ops)
    return Fusions(tuple(_root(parents, op.id) for op in graph.ops), tuple(absorbed), in_place)


def fusion_groups(graph: Graph) -> tuple[int, ...]:
    """Per op, the smallest op id of the group it is fused in; its own id when it is alone."""
    return find_fusions(graph).groups


def _root(parents: list[int], op: int) -> int:
    while parents[op] != op:
        parents[op] = parents[parents[op]]
        op = parents[op]
    return op


def _join(parents: list[int], first: int, second: int) -> None:
    low, high = sorted((_root(parents, first), _root(parents, second)))
    parents[high] = low


def _epilogue(op: Op, consumer: Op, wiring: Wiring) -> frozenset[Provider]:
    """Providers on which ``consumer`` is computed by the kernel of ``op``, or the other way round."""
    if op.domain or consumer.domain:
        return NOWHERE
    if op.op_type == "DequantizeLinear":
        return ON_CPU if is_quantized(consumer, wiring) else NOWHERE
    if consumer.op_type == "QuantizeLinear":
        return ON_CPU if is_quantized(op, wiring) else NOWHERE
    rule = EPILOGUES.get((op.op_type, consumer.op_type))
    return NOWHERE if rule is None else rule(op, consumer, wiring)


def is_quantized(op: Op, wiring: Wiring) -> bool:
    """Whether ``op`` stands between dequantized inputs and a quantized output, so that it is computed on integers."""
    if op.op_type not in QUANTIZED_ON_CPU or op.domain:
        return False
    first, consumer = wiring.producer(op.inputs[0] if op.inputs else None), wiring.sole_consumer(op)
    return is_op(first, "DequantizeLinear") and is_op(consumer, "QuantizeLinear")


_Rule = Callable[[Op, Op, Wiring], frozenset[Provider]]


def _bias(product: Op, add: Op, wiring: Wiring) -> frozenset[Provider]:
    return EVERYWHERE if adds_bias(product, add, wiring) else NOWHERE


def _after_bias(add: Op, _: Op, wiring: Wiring) -> frozenset[Provider]:
    """An activation counts behind a Gemm alone; one of more dimensions has a Reshape between."""
    return ON_CPU if is_gemm(add, wiring) and rank(wiring.graph.values[add.results[0]]) == MATRIX else NOWHERE


def _before_gelu(add: Op, _: Op, wiring: Wiring) -> frozenset[Provider]:
    return EVERYWHERE if is_row_sum(add, wiring) else NOWHERE


def _skip(add: Op, norm: Op, wiring: Wiring) -> frozenset[Provider]:
    first = norm.inputs[:1] == add.results[:1]
    return EVERYWHERE if first and is_skip(add, wiring) else NOWHERE


def _always(providers: frozenset[Provider]) -> _Rule:
    return lambda _op, _consumer, _wiring: providers


def _gate(sigmoid: Op, product: Op, wiring: Wiring) -> frozenset[Provider]:
    """``x * Sigmoid(x)``, which is Swish."""
    gated = wiring.others(product, sigmoid.results[0])
    return EVERYWHERE if gated == sigmoid.inputs[:1] else NOWHERE


def _after_convolution(normalization: Op, _: Op, wiring: Wiring) -> frozenset[Provider]:
    """Where the normalization goes into the weights of the convolution before it."""
    head = wiring.producer(normalization.inputs[0])
    alone = head is not None and is_op(head, "Conv") and wiring.sole_consumer(head) is normalization
    return EVERYWHERE if alone else NOWHERE


def _first_input(op: Op, consumer: Op, _: Wiring) -> frozenset[Provider]:
    return EVERYWHERE if consumer.inputs and consumer.inputs[0] == op.results[0] else NOWHERE


EPILOGUES: Mapping[tuple[str, str], _Rule] = {
    ("MatMul", "Add"): _bias,
    ("Conv", "BatchNormalization"): _first_input,
    ("Conv", "Relu"): _always(EVERYWHERE),
    ("BatchNormalization", "Relu"): _after_convolution,
    ("Add", "LayerNormalization"): _skip,
    ("Add", "Gelu"): _before_gelu,
    ("Sigmoid", "Mul"): _gate,
    **{("Conv", kind): _always(ON_CPU) for kind in CONV_ACTIVATIONS},
    **{("Gemm", kind): _always(ON_CPU) for kind in GEMM_ACTIVATIONS},
    **{("Add", kind): _after_bias for kind in GEMM_ACTIVATIONS},
}  # fmt: skip
"""Pairs of producer and sole consumer that may share a kernel."""
