"""Groups of ops that ONNX Runtime runs as one kernel: decomposed Gelu, LayerNormalization, products of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hetpart.cost_model.sums import is_row_sum, is_skip
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.graph.ir import Op

SCALES = frozenset({"Mul", "Div"})


def patterns(wiring: Wiring) -> Iterator[frozenset[int]]:
    """Decomposed Gelu, FastGelu and LayerNormalization: sets of ops whose inner values stay inside."""
    for op in wiring.graph.ops:
        finder = PATTERNS.get(op.op_type) if not op.domain else None
        members = finder(op, wiring) if finder else frozenset[int]()
        if members and _is_closed(members, wiring):
            yield members


def _is_closed(members: frozenset[int], wiring: Wiring) -> bool:
    """Whether every value that members make, but the last one's, is used by members alone."""
    inner = [v for member in members if member != max(members) for v in wiring.graph.ops[member].results]
    return all(v not in wiring.returned and members.issuperset(wiring.consumers[v]) for v in inner)


def _erf_gelu(erf: Op, wiring: Wiring) -> frozenset[int]:
    """``x · (1 + erf(x / √2)) · ½``, the half multiplied in at either end."""
    scale = wiring.producer(erf.inputs[0])
    shifted = _next(erf, wiring, "Add")
    product = _next(shifted, wiring, "Mul")
    if scale is None or shifted is None or product is None or not is_op(scale, *SCALES):
        return frozenset()
    halving = _halving(product, wiring.others(product, shifted.results[0]), scale.inputs[0], wiring)
    members = frozenset(op.id for op in (scale, erf, shifted, product, halving) if op is not None)
    return _behind_sum(members, scale.inputs[0], is_row_sum, wiring) if halving else frozenset()


def _tanh_gelu(tanh: Op, wiring: Wiring) -> frozenset[int]:
    """``½ · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))``, the half multiplied in at either end."""
    outer = wiring.producer(tanh.inputs[0])
    total = _producer_of_type(outer, "Add", wiring) if is_op(outer, "Mul") else None
    scaled = _producer_of_type(total, "Mul", wiring)
    cube = _producer_of_type(scaled, "Pow", wiring)
    shifted = _next(tanh, wiring, "Add")
    product = _next(shifted, wiring, "Mul")
    if cube is None or shifted is None or product is None:
        return frozenset()
    halving = _halving(product, wiring.others(product, shifted.results[0]), cube.inputs[0], wiring)
    chain = (cube, scaled, total, outer, tanh, shifted, product, halving)
    return frozenset(op.id for op in chain if op is not None) if halving else frozenset()


def _halving(product: Op, gates: tuple[int, ...], source: int | None, wiring: Wiring) -> Op | None:
    """The op that halves ``source`` before the product, or the product after it; None where neither does."""
    if gates == (source,):
        after = _next(product, wiring, *SCALES)
        return after if after is not None and _has_constant(after, wiring) else None
    before = wiring.producer(gates[0]) if gates else None
    return before if before is not None and is_op(before, *SCALES) and source in before.inputs else None


def _next(op: Op | None, wiring: Wiring, *op_types: str) -> Op | None:
    """The sole consumer of what ``op`` makes, if it is of one of these types."""
    consumer = None if op is None else wiring.sole_consumer(op)
    return consumer if is_op(consumer, *op_types) else None


def _has_constant(op: Op, wiring: Wiring) -> bool:
    return any(v is not None and wiring.graph.values[v].is_constant for v in op.inputs)


def _layer_norm(root: Op, wiring: Wiring) -> frozenset[int]:
    """``(x - mean) / √(mean((x - mean)²) + ε)``, then a scale and a shift: found by its Sqrt."""
    shifted = wiring.producer(root.inputs[0])
    variance = _producer_of_type(shifted, "ReduceMean", wiring) if is_op(shifted, "Add") else None
    square = _producer_of_type(variance, "Pow", wiring) or _producer_of_type(variance, "Mul", wiring)
    centred = _producer_of_type(square, "Sub", wiring)
    mean = _producer_of_type(centred, "ReduceMean", wiring)
    quotient = wiring.sole_consumer(root)
    chain = (mean, centred, square, variance, shifted, root, quotient)
    if any(op is None for op in chain) or not is_op(quotient, "Div"):
        return frozenset()
    assert quotient is not None
    members = frozenset(op.id for op in (*chain, *_affine(quotient, wiring)) if op is not None)
    return _behind_sum(members, mean.inputs[0] if mean else None, is_skip, wiring)


def _integer_product(product: Op, wiring: Wiring) -> frozenset[int]:
    """A product of integers that is scaled to floats behind it, and where that is for it alone, quantized before it."""
    cast = _next(product, wiring, "Cast")
    scaled = _next(cast, wiring, "Mul")
    if cast is None or scaled is None:
        return frozenset()
    scale = wiring.producer(next(iter(wiring.others(scaled, cast.results[0])), None))
    if scale is None or not is_op(scale, "Mul"):
        return frozenset()
    bias = _next(scaled, wiring, "Add")
    behind = (bias,) if bias is not None and _has_constant(bias, wiring) else ()
    members = frozenset(op.id for op in (product, cast, scale, scaled, *behind))
    quantizer = wiring.producer(product.inputs[0])
    whole = members | {quantizer.id} if quantizer is not None and is_op(quantizer, "DynamicQuantizeLinear") else members
    return whole if _is_closed(whole, wiring) else members


def _behind_sum(
    members: frozenset[int], source: int | None, rule: Callable[[Op, Wiring], bool], wiring: Wiring
) -> frozenset[int]:
    """``members`` with the sum that makes their ``source``, where they alone use it and the kernel takes it over."""
    add = wiring.producer(source)
    if add is None or not is_op(add, "Add") or not rule(add, wiring):
        return members
    with_sum = members | {add.id}
    return with_sum if _is_closed(with_sum, wiring) else members


def _producer_of_type(op: Op | None, op_type: str, wiring: Wiring) -> Op | None:
    """The producer of one of the op's inputs that is of ``op_type``."""
    producers = (wiring.producer(value) for value in (op.inputs if op is not None else ()))
    return next((p for p in producers if is_op(p, op_type)), None)


def _affine(quotient: Op, wiring: Wiring) -> tuple[Op, ...]:
    """The Mul and Add by constants behind a normalization, as far as they are there."""
    scaled = wiring.sole_consumer(quotient)
    if scaled is None or not is_op(scaled, "Mul") or not _has_constant(scaled, wiring):
        return ()
    shifted = wiring.sole_consumer(scaled)
    if shifted is None or not is_op(shifted, "Add") or not _has_constant(shifted, wiring):
        return (scaled,)
    return scaled, shifted


PATTERNS: Mapping[str, Callable[[Op, Wiring], frozenset[int]]] = {
    "Erf": _erf_gelu,
    "MatMulInteger": _integer_product,
    "Sqrt": _layer_norm,
    "Tanh": _tanh_gelu,
}
"""Finders of whole groups, by the op type they start from."""
