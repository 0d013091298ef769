"""Groups of ops that ONNX Runtime runs as one kernel when they share a session.

Only what its optimiser is known to fuse is grouped, and only where every value inside a group stays inside: all members
but one, the last, feed members alone. Such a group is convex, so it can always be placed on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
SCALES = frozenset({"Mul", "Div"})


@dataclass(frozen=True, slots=True)
class Fusions:
    """What is fused in a graph, op by op."""

    groups: tuple[int, ...]
    """Smallest op id of the group each op belongs to; its own id when alone."""
    absorbed: tuple[frozenset[Provider], ...]
    """Providers on which the op's output is never written: another member's kernel takes it over."""


@dataclass(frozen=True, slots=True)
class _Wiring:
    """A graph with its uses looked up."""

    graph: Graph
    consumers: tuple[tuple[int, ...], ...]
    returned: frozenset[int]

    @staticmethod
    def of(graph: Graph) -> _Wiring:
        return _Wiring(graph, graph.consumers(), frozenset(graph.outputs))

    def sole_consumer(self, op: Op) -> Op | None:
        """The one op that uses all that ``op`` makes; None where several do, or the caller."""
        if len(op.results) != 1 or op.results[0] in self.returned:
            return None
        users = self.consumers[op.results[0]]
        return self.graph.ops[users[0]] if len(users) == 1 else None

    def producer(self, value: int | None) -> Op | None:
        made_by = None if value is None else self.graph.values[value].producer
        return None if made_by is None else self.graph.ops[made_by]

    def others(self, op: Op, value: int) -> tuple[int, ...]:
        """Inputs of ``op`` beside ``value``."""
        return tuple(v for v in op.inputs if v is not None and v != value)


def find_fusions(graph: Graph) -> Fusions:
    """What ONNX Runtime fuses in ``graph`` when all of it runs in one session."""
    wiring = _Wiring.of(graph)
    absorbed = [NOWHERE] * len(graph.ops)
    parents = list(range(len(graph.ops)))
    for members in _patterns(wiring):
        last = max(members)
        for member in members:
            absorbed[member] = EVERYWHERE if member != last else absorbed[member]
            _join(parents, member, last)
    for op in graph.ops:
        consumer = wiring.sole_consumer(op)
        providers = NOWHERE if consumer is None else _epilogue(op, consumer, wiring)
        if consumer is not None and providers:
            absorbed[op.id] |= providers
            _join(parents, op.id, consumer.id)
    return Fusions(tuple(_root(parents, op.id) for op in graph.ops), tuple(absorbed))


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


def _epilogue(op: Op, consumer: Op, wiring: _Wiring) -> frozenset[Provider]:
    """Providers on which ``consumer`` is computed by the kernel of ``op``, or the other way round."""
    if op.domain or consumer.domain:
        return NOWHERE
    if op.op_type == "DequantizeLinear":
        return ON_CPU if _is_quantized(consumer, wiring) else NOWHERE
    if consumer.op_type == "QuantizeLinear":
        return ON_CPU if _is_quantized(op, wiring) else NOWHERE
    rule = EPILOGUES.get((op.op_type, consumer.op_type))
    return NOWHERE if rule is None else rule(op, consumer, wiring)


def _is_quantized(op: Op, wiring: _Wiring) -> bool:
    """Whether ``op`` stands between dequantized inputs and a quantized output."""
    if op.op_type not in QUANTIZED_ON_CPU or op.domain:
        return False
    first, consumer = wiring.producer(op.inputs[0] if op.inputs else None), wiring.sole_consumer(op)
    return _is(first, "DequantizeLinear") and _is(consumer, "QuantizeLinear")


def _is(op: Op | None, *op_types: str) -> bool:
    return op is not None and not op.domain and op.op_type in op_types


_Rule = Callable[[Op, Op, _Wiring], frozenset[Provider]]


def _adds_bias(op: Op, add: Op, wiring: _Wiring) -> bool:
    """Whether ``add`` adds a constant vector along the last axis to what ``op`` makes."""
    others = wiring.others(add, op.results[0])
    values = [wiring.graph.values[v] for v in others]
    return len(values) == 1 and values[0].is_constant and values[0].shape is not None and len(values[0].shape) <= 1


def _bias(op: Op, add: Op, wiring: _Wiring) -> frozenset[Provider]:
    return EVERYWHERE if _adds_bias(op, add, wiring) else NOWHERE


def _after_bias(activated: frozenset[Provider]) -> _Rule:
    """An activation counts behind the bias of a matrix product, not behind any sum."""

    def rule(add: Op, _: Op, wiring: _Wiring) -> frozenset[Provider]:
        heads = (wiring.producer(value) for value in add.inputs)
        biased = any(head is not None and _is(head, "MatMul") and _adds_bias(head, add, wiring) for head in heads)
        return activated if biased else NOWHERE

    return rule


def _always(providers: frozenset[Provider]) -> _Rule:
    return lambda _op, _consumer, _wiring: providers


def _gate(sigmoid: Op, product: Op, wiring: _Wiring) -> frozenset[Provider]:
    """``x * Sigmoid(x)``, which is Swish."""
    gated = wiring.others(product, sigmoid.results[0])
    return EVERYWHERE if gated == sigmoid.inputs[:1] else NOWHERE


def _first_input(op: Op, consumer: Op, _: _Wiring) -> frozenset[Provider]:
    return EVERYWHERE if consumer.inputs and consumer.inputs[0] == op.results[0] else NOWHERE


EPILOGUES: Mapping[tuple[str, str], _Rule] = {
    ("MatMul", "Add"): _bias,
    ("Conv", "BatchNormalization"): _first_input,
    ("Conv", "Relu"): _always(EVERYWHERE),
    ("BatchNormalization", "Relu"): lambda op, _, wiring: (
        EVERYWHERE if _is(wiring.producer(op.inputs[0]), "Conv") else NOWHERE
    ),
    ("Add", "LayerNormalization"): _first_input,
    ("Add", "Gelu"): _after_bias(EVERYWHERE),
    ("Sigmoid", "Mul"): _gate,
    **{("Conv", kind): _always(ON_CPU) for kind in CONV_ACTIVATIONS},
    **{("Gemm", kind): _always(ON_CPU) for kind in GEMM_ACTIVATIONS},
    **{("Add", kind): _after_bias(ON_CPU) for kind in GEMM_ACTIVATIONS},
}  # fmt: skip
"""Pairs of producer and sole consumer that may share a kernel."""


def _patterns(wiring: _Wiring) -> Iterator[frozenset[int]]:
    """Decomposed Gelu, FastGelu and LayerNormalization: sets of ops whose inner values stay inside."""
    for op in wiring.graph.ops:
        finder = PATTERNS.get(op.op_type) if not op.domain else None
        members = finder(op, wiring) if finder else frozenset[int]()
        if members and _is_closed(members, wiring):
            yield members


def _is_closed(members: frozenset[int], wiring: _Wiring) -> bool:
    """Whether every value that members make, but the last one's, is used by members alone."""
    inner = [v for member in members if member != max(members) for v in wiring.graph.ops[member].results]
    return all(v not in wiring.returned and members.issuperset(wiring.consumers[v]) for v in inner)


def _erf_gelu(erf: Op, wiring: _Wiring) -> frozenset[int]:
    """``x · (1 + erf(x / √2)) · ½``, the half multiplied in at either end."""
    scale = wiring.producer(erf.inputs[0])
    shifted = _next(erf, wiring, "Add")
    product = _next(shifted, wiring, "Mul")
    if scale is None or shifted is None or product is None or not _is(scale, *SCALES):
        return frozenset()
    halving = _halving(product, wiring.others(product, shifted.results[0]), scale.inputs[0], wiring)
    return frozenset(op.id for op in (scale, erf, shifted, product, halving)) if halving else frozenset()


def _tanh_gelu(tanh: Op, wiring: _Wiring) -> frozenset[int]:
    """``½ · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))``, the half multiplied in at either end."""
    outer = wiring.producer(tanh.inputs[0])
    total = _producer_of_type(outer, "Add", wiring) if _is(outer, "Mul") else None
    scaled = _producer_of_type(total, "Mul", wiring)
    cube = _producer_of_type(scaled, "Pow", wiring)
    shifted = _next(tanh, wiring, "Add")
    product = _next(shifted, wiring, "Mul")
    if cube is None or shifted is None or product is None:
        return frozenset()
    halving = _halving(product, wiring.others(product, shifted.results[0]), cube.inputs[0], wiring)
    chain = (cube, scaled, total, outer, tanh, shifted, product, halving)
    return frozenset(op.id for op in chain if op is not None) if halving else frozenset()


def _halving(product: Op, gates: tuple[int, ...], source: int | None, wiring: _Wiring) -> Op | None:
    """The op that halves ``source`` before the product, or the product after it; None where neither does."""
    if gates == (source,):
        after = _next(product, wiring, *SCALES)
        return after if after is not None and _has_constant(after, wiring) else None
    before = wiring.producer(gates[0]) if gates else None
    return before if before is not None and _is(before, *SCALES) and source in before.inputs else None


def _next(op: Op | None, wiring: _Wiring, *op_types: str) -> Op | None:
    """The sole consumer of what ``op`` makes, if it is of one of these types."""
    consumer = None if op is None else wiring.sole_consumer(op)
    return consumer if _is(consumer, *op_types) else None


def _has_constant(op: Op, wiring: _Wiring) -> bool:
    return any(v is not None and wiring.graph.values[v].is_constant for v in op.inputs)


def _layer_norm(root: Op, wiring: _Wiring) -> frozenset[int]:
    """``(x - mean) / √(mean((x - mean)²) + ε)``, then a scale and a shift: found by its Sqrt."""
    shifted = wiring.producer(root.inputs[0])
    variance = _producer_of_type(shifted, "ReduceMean", wiring) if _is(shifted, "Add") else None
    square = _producer_of_type(variance, "Pow", wiring) or _producer_of_type(variance, "Mul", wiring)
    centred = _producer_of_type(square, "Sub", wiring)
    mean = _producer_of_type(centred, "ReduceMean", wiring)
    quotient = wiring.sole_consumer(root)
    chain = (mean, centred, square, variance, shifted, root, quotient)
    if any(op is None for op in chain) or not _is(quotient, "Div"):
        return frozenset()
    assert quotient is not None
    return frozenset(op.id for op in (*chain, *_affine(quotient, wiring)) if op is not None)


def _producer_of_type(op: Op | None, op_type: str, wiring: _Wiring) -> Op | None:
    """The producer of one of the op's inputs that is of ``op_type``."""
    producers = (wiring.producer(value) for value in (op.inputs if op is not None else ()))
    return next((p for p in producers if _is(p, op_type)), None)


def _affine(quotient: Op, wiring: _Wiring) -> tuple[Op, ...]:
    """The Mul and Add by constants behind a normalization, as far as they are there."""
    scaled = wiring.sole_consumer(quotient)
    if scaled is None or not _is(scaled, "Mul") or not _has_constant(scaled, wiring):
        return ()
    shifted = wiring.sole_consumer(scaled)
    if shifted is None or not _is(shifted, "Add") or not _has_constant(shifted, wiring):
        return (scaled,)
    return scaled, shifted


PATTERNS: Mapping[str, Callable[[Op, _Wiring], frozenset[int]]] = {
    "Erf": _erf_gelu,
    "Sqrt": _layer_norm,
    "Tanh": _tanh_gelu,
}
"""Finders of whole groups, by the op type they start from."""
