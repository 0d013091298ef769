"""Dequantizers that ONNX Runtime puts before biases and weights that are floats: its ``WeightBiasQuantization``.

Where a product is then computed on integers they are part of its kernel. Where it is not, as on activations of 16 bits,
they run by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetpart.cost_model.session.rewired.net import Net, is_weight
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Graph, Op, Value

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm"})
ACTIVATIONS = frozenset({"Clip", "Relu"})
WEIGHT, BIAS = 1, 2
"""Positions of inputs."""
HELD: Mapping[int, str] = {WEIGHT: "int8", BIAS: "int32"}
"""Dtypes that ONNX Runtime quantizes them to."""
FLOATS = "float32"


@dataclass(frozen=True, slots=True)
class Quantized:
    """A product between quantizers."""

    op: Op
    dequantizer: Op
    path: tuple[Op, ...]
    """The product and what is between it and the quantizer."""
    places: tuple[int, ...]
    """Of what it reads as floats."""


def quantized_products(
    graph: Graph, simple: Simplified, returned: frozenset[int], is_absorbed: Callable[[Op], bool]
) -> tuple[Quantized, ...]:
    """Products that compute on floats though quantizers stand around them, with weights or a bias of floats.

    Args:
        graph: What the ops are of.
        simple: The ops that are left of the session.
        returned: Values that leave it.
        is_absorbed: Whether the one op behind computes an op on the way.
    """
    makers = {op.results[0]: op for op in simple.ops if op.op_type == "DequantizeLinear" and not op.domain}
    likely = [op for op in simple.ops if op.op_type in PRODUCTS and not op.domain] if makers else []
    if not likely:
        return ()
    readers = _readers(simple, returned)
    found = (_between_quantizers(op, makers, readers, graph, simple) for op in likely)
    return tuple(one for one in found if one is not None and not all(map(is_absorbed, one.path)))


def dequantize(net: Net, products: Iterable[Quantized]) -> bool:
    """Put dequantizers before what ``products`` read as floats; whether there was any."""
    changed = False
    for key, product in _in_order(net, products):
        for place in product.places:
            before = product.op.inputs[place]
            assert before is not None
            held = _changed(net, before, dtype=HELD[place], content=None)
            made = _changed(net, before, role=net.values[product.dequantizer.results[0]].role, content=None)
            net.insert(replace(product.dequantizer, inputs=(held, product.dequantizer.inputs[1]), outputs=(made,)))
            inputs = net.ops[key].inputs
            net.set(key, replace(net.ops[key], inputs=(*inputs[:place], made, *inputs[place + 1 :])))
            changed = True
    return changed


def _in_order(net: Net, products: Iterable[Quantized]) -> Iterator[tuple[int, Quantized]]:
    of = {product.op.id: product for product in products}
    return ((key, of[key]) for key, _ in list(net.in_order()) if key in of)


def _changed(net: Net, value: int, **changes: Any) -> int:
    """A new value: ``value`` with ``changes``."""
    made = net.value_like(value)
    net.values[made] = replace(net.values[made], **changes)
    return made


def _readers(simple: Simplified, returned: frozenset[int]) -> dict[int, list[Op | None]]:
    """By value, the ops that read it, and ``None`` for the caller."""
    found: dict[int, list[Op | None]] = {value: [None] for value in returned}
    for op in simple.ops:
        for value in op.uses:
            found.setdefault(simple.value(value), []).append(op)
    return found


def _between_quantizers(
    op: Op, makers: Mapping[int, Op], readers: Mapping[int, list[Op | None]], graph: Graph, simple: Simplified
) -> Quantized | None:
    """What ONNX Runtime looks for: one scale before, one reader behind, constants that are no results of others."""
    image, *constants = [simple.value(v) for v in op.uses]
    before, path = makers.get(image), _path(op, readers)
    if before is None or not path or graph.values[before.uses[1]].numel != 1:
        return None
    floats = [_is_of_floats(graph.values[value]) for value in constants]
    weight, *bias = floats
    if not all(bias) or not (weight or constants[0] in makers):
        return None
    places = tuple(place for place, is_float in enumerate(floats, WEIGHT) if is_float)
    return Quantized(op, before, path, places) if places else None


def _path(op: Op, readers: Mapping[int, list[Op | None]]) -> tuple[Op, ...]:
    """``op`` and the activations behind it, up to a quantizer; nothing where another op or the caller reads one."""
    path = [op]
    while len(behind := readers.get(path[-1].results[0], [])) == 1 and behind[0] is not None:
        if behind[0].op_type == "QuantizeLinear":
            return tuple(path)
        if behind[0].op_type not in ACTIVATIONS:
            break
        path.append(behind[0])
    return ()


def _is_of_floats(value: Value) -> bool:
    return is_weight(value) and value.dtype == FLOATS
