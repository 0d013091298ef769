"""Ops that vanish into all that read them: Pads, Relus before a Clip, operands of products transposed or scaled.

What reads such an op computes it on the way, from what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isclose

from hetpart.cost_model.kernels import lacks_half
from hetpart.cost_model.quantized import is_quantized, quantizes_from_zero
from hetpart.cost_model.sums import GEMM_DTYPES, MATRIX, is_gemm, rank
from hetpart.cost_model.turning import permutation, split_permutation, swaps_last, turned
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

SCALES = ("Mul", "Div")
VIEWS = ("Reshape", "Squeeze", "Unsqueeze")
SCALED_DTYPES = GEMM_DTYPES | {"float64"}
HALF = "float16"
"""What of it ONNX Runtime computes in float32 on the CPU reads constants that are cast, once for all in every run where
several ops read them: they are no constants any more for what looks for such."""


def foldings(wiring: Wiring, taken: Collection[int], provider: Provider) -> frozenset[int]:
    """Ids of the ops that vanish in a session of ``provider``.

    Args:
        wiring: Of their graph.
        taken: Ops that other fusions have.
        provider: What runs the session.
    """
    found: set[int] = set()
    on_cpu = provider is Provider.CPU
    for op in reversed(wiring.simple.ops):
        rule = None if op.domain or op.id in taken else FOLDINGS.get(op.op_type)
        left = is_left_half(op, wiring) if on_cpu else op.op_type == "DequantizeLinear"
        if rule is not None and not left and _vanishes(op, rule, wiring, found):
            found.add(op.id)
    return frozenset(found)


def operands_of_products(folded: Collection[int], graph: Graph) -> frozenset[int]:
    """Those of the ``folded`` ops that products take over, once all ops have kernels."""
    return frozenset(number for number in folded if graph.ops[number].op_type in OPERANDS)


def fold_alike(wiring: Wiring) -> bool:
    """Whether the same ops vanish in sessions of every provider."""
    quantized = any(op.op_type == "DequantizeLinear" for op in wiring.simple.ops)
    return not quantized and all(value.dtype != HALF for value in wiring.graph.values)


def is_left_half(op: Op, wiring: Wiring) -> bool:
    """Whether no kernel of the CPU provider takes over ``op``, in half precision, as one in float32 would.

    That is a scale whose constant several ops read, and a Transpose that is computed in float32, as it stands among
    such ops, or turns what no op makes; but for those that a Gemm takes, or a product that takes a scale, too.
    """
    if op.op_type not in OPERANDS or wiring.graph.values[op.results[0]].dtype != HALF:
        return False
    if op.op_type == "Transpose":
        before = wiring.producer(wiring.inputs(op)[0])
        if before is not None and not lacks_half(before, wiring.graph):
            return False
        readers = [wiring.graph.ops[user] for user in wiring.users(op)]
        return not all(_is_gemm_product(reader, wiring) or _is_scaled_product(reader, wiring) for reader in readers)
    constants = [value.id for value in wiring.operands(op) if value is not None and value.is_constant]
    return any(len(wiring.consumers.get(value, ())) > 1 for value in constants)


def takes_operands(product: Op, wiring: Wiring, taken: Collection[int]) -> bool:
    """Whether ``product`` is no Gemm and reads what an operand is transposed or scaled from, whoever else reads it."""
    found = (wiring.producer(value) for value in wiring.inputs(product))
    makers = (maker for maker in found if maker is not None and maker.id not in taken)
    return _is_plain_product(product, wiring) and any(
        not maker.domain and not wiring.is_returned(maker) and not is_left_half(maker, wiring) and (
            (maker.op_type in OPERANDS and OPERANDS[maker.op_type](maker, product, wiring, ()))
            or _is_turned_apart(maker, wiring)
        ) for maker in makers
    )  # fmt: skip


_Folded = Collection[int]
_Rule = Callable[[Op, Op, Wiring, _Folded], bool]


def _vanishes(op: Op, rule: _Rule, wiring: Wiring, found: _Folded) -> bool:
    users = wiring.users(op)
    return bool(users) and all(rule(op, wiring.graph.ops[user], wiring, found) for user in users)


def scalar_beside(op: Op, wiring: Wiring) -> int | None:
    """What a Mul or Div by a constant of one element scales."""
    values = wiring.operands(op)
    places = (0,) if op.op_type == "Div" else (0, 1)
    for place in places if len(values) == len(SCALES) else ():
        value, factor = values[place], values[1 - place]
        if value is not None and factor is not None and not value.is_constant and _scales(factor.shape, value.shape):
            return value.id if factor.is_constant and factor.numel == 1 else None
    return None


def _scales(factor: tuple[int | None, ...] | None, value: tuple[int | None, ...] | None) -> bool:
    """A factor of more dimensions would give the product more."""
    return factor is not None and bool(value) and len(factor) <= len(value or ())


def _scaled(scale: Op, reader: Op, wiring: Wiring, found: _Folded) -> bool:
    value = scalar_beside(scale, wiring)
    if value is None or wiring.graph.values[value].dtype not in SCALED_DTYPES:
        return False
    before = wiring.producer(value)
    behind_product = before is not None and is_op(before, "MatMul") and wiring.sole_consumer(before) is scale
    return not behind_product and (reader.id in found or _is_plain_product(reader, wiring))


def _is_plain_product(reader: Op, wiring: Wiring) -> bool:
    """Whether it is a product that does not become a Gemm."""
    if not is_op(reader, "MatMul"):
        return False
    add = wiring.sole_consumer(reader)
    return add is None or not is_op(add, "Add") or not is_gemm(add, wiring)


def _is_gemm_product(reader: Op, wiring: Wiring) -> bool:
    """Whether it is a Gemm, or a product that becomes one."""
    return is_op(reader, "Gemm") or (is_op(reader, "MatMul") and not _is_plain_product(reader, wiring))


def _is_scaled_product(reader: Op, wiring: Wiring) -> bool:
    """Whether it is a product that what it makes is scaled behind, by a constant of its own."""
    scale = wiring.sole_consumer(reader) if is_op(reader, "MatMul") else None
    if scale is None or not is_op(scale, *SCALES) or is_left_half(scale, wiring):
        return False
    return scalar_beside(scale, wiring) == reader.results[0]


def _transposed(transpose: Op, reader: Op, wiring: Wiring, found: _Folded) -> bool:
    """Behind batches that stay in front in their order, the last two axes are swapped, or one of them goes first."""
    axes = permutation(transpose, wiring)
    source = wiring.operands(transpose)[0]
    if source is None or source.dtype not in SCALED_DTYPES:
        return False
    if reader.id in found:
        between = is_op(reader, *SCALES) and _is_stepped_over(axes)
        return between or is_op(reader, "Transpose") or turned(reader, wiring) is not None
    if is_op(reader, "Reshape"):
        return _turned_apart(reader, split_permutation(transpose, reader, wiring), wiring, found)
    if _is_gemm_product(reader, wiring):
        return _into_gemm(transpose, reader, axes, wiring)
    return is_op(reader, "MatMul") and _is_stepped_over(axes)


def _turned_apart(split: Op, axes: tuple[int, ...], wiring: Wiring, found: _Folded) -> bool:
    """Whether products read what ``split`` makes as if it were not turned: axes are taken apart before a Transpose."""
    users = wiring.users(split)
    return (
        bool(axes) and bool(users) and all(_steps_over(wiring.graph.ops[user], axes, wiring, found) for user in users)
    )


def _steps_over(reader: Op, axes: tuple[int, ...], wiring: Wiring, found: _Folded) -> bool:
    """Whether ``reader``, or what it vanishes into, is a product of an operand whose ``axes`` are turned."""
    if reader.id not in found:
        return _is_plain_product(reader, wiring) and _is_stepped_over(axes)
    if is_op(reader, "Transpose"):
        behind = permutation(reader, wiring)
        return len(behind) == len(axes) and _is_stepped_over(tuple([axes[axis] for axis in behind]))
    if is_op(reader, *SCALES):
        return _is_stepped_over(axes)
    backs = (wiring.graph.ops[back] for turn in wiring.users(reader) for back in wiring.users(wiring.graph.ops[turn]))
    turns = all(back.id in found and _turns(back, reader, wiring) for back in backs)
    return is_op(reader, "Reshape") and turns and _is_stepped_over((*axes[:-MATRIX], *reversed(axes[-MATRIX:])))


def _is_turned_apart(split: Op, wiring: Wiring) -> bool:
    before = wiring.producer(wiring.inputs(split)[0]) if is_op(split, "Reshape") else None
    turned_before = before is not None and is_op(before, "Transpose") and not wiring.is_returned(before)
    return turned_before and before is not None and _is_stepped_over(split_permutation(before, split, wiring))


def _into_gemm(transpose: Op, reader: Op, axes: tuple[int, ...], wiring: Wiring) -> bool:
    """What a Gemm multiplies: a product of batches has a Reshape before it."""
    left = wiring.operands(reader)[0]
    read = wiring.inputs(reader)[:2]
    flat = left is not None and rank(left) == MATRIX
    return swaps_last(axes) and transpose.results[0] in (read if flat else read[1:])


def _is_stepped_over(axes: tuple[int, ...]) -> bool:
    """Whether a product reads its operand as it was before it was turned."""
    return swaps_last(axes) or _moves_batches(axes)


def _moves_batches(axes: tuple[int, ...]) -> bool:
    """Batches that lie between the rows and the columns, which a product steps over."""
    count = len(axes)
    return count > MATRIX and axes in ((*range(1, count - 1), count - 1, 0), (*range(1, count - 1), 0, count - 1))


def _clipped(relu: Op, reader: Op, wiring: Wiring, _: _Folded) -> bool:
    if len(wiring.users(relu)) != 1:
        return False
    if is_op(reader, "QuantizeLinear"):
        return quantizes_from_zero(reader, wiring)
    return is_op(reader, "Clip") and all(v is None or v.is_constant for v in wiring.operands(reader)[1:])


def _dequantized(dequantize: Op, reader: Op, wiring: Wiring, _: _Folded) -> bool:
    """Each of several kernels of integers reads what it dequantizes; one alone shares its kernel."""
    return len(wiring.users(dequantize)) > 1 and is_quantized(reader, wiring)


def _reshaped(view: Op, reader: Op, wiring: Wiring, found: _Folded) -> bool:
    """Of a Reshape and the views behind it, the last alone is left; none of what turns the operand of a product."""
    if turned(view, wiring):
        return _turned_operand(view, reader, wiring, found)
    alone = len(wiring.users(view)) == 1 and wiring.graph.values[view.results[0]].is_static
    if alone and is_op(reader, "Transpose") and reader.id in found:
        return any(user in found and _turns(wiring.graph.ops[user], view, wiring) for user in wiring.users(reader))
    merges = not any(op.attributes.get("allowzero") for op in (view, reader))
    return alone and merges and is_op(reader, *VIEWS) and _is_behind_reshape(view, wiring)


def _turned_operand(back: Op, reader: Op, wiring: Wiring, found: _Folded) -> bool:
    value = wiring.graph.values[back.results[0]]
    if value.dtype not in SCALED_DTYPES:
        return False
    return is_op(reader, *SCALES) if reader.id in found else _is_plain_product(reader, wiring)


def _turns(back: Op, flat: Op, wiring: Wiring) -> bool:
    turn = turned(back, wiring)
    return turn is not None and turn.whole and turn.flat is flat


def _is_behind_reshape(view: Op, wiring: Wiring) -> bool:
    before = wiring.producer(wiring.inputs(view)[0])
    if view.op_type == "Reshape" or before is None or not is_op(before, *VIEWS):
        return view.op_type == "Reshape"
    return wiring.sole_consumer(before) is view and _is_behind_reshape(before, wiring)


def _padded(pad: Op, reader: Op, wiring: Wiring, _: _Folded) -> bool:
    """Windows pad by themselves, with zeros, and no channels."""
    if len(wiring.users(pad)) != 1 or pad.attributes.get("mode", "constant") not in ("constant", ""):
        return False
    if not is_op(reader, "Conv", "MaxPool", "AveragePool") or len(reader.results) > 1:
        return False
    pads, filler = (*wiring.operands(pad), None, None)[1:3]
    if len(pad.inputs) > 3 or reader.attributes.get("auto_pad", "NOTSET") != "NOTSET" or pads is None:
        return False
    zeros = filler is None or (filler.content is not None and isclose(filler.content[0], 0))
    return zeros and _pads_images(pads.content) and wiring.inputs(reader)[0] == pad.results[0]


def _pads_images(pads: tuple[float, ...] | None) -> bool:
    if pads is None or len(pads) < 2 * MATRIX:
        return False
    half = len(pads) // 2
    return min(pads) >= 0 and not any((*pads[:MATRIX], *pads[half : half + MATRIX]))


OPERANDS: Mapping[str, _Rule] = {"Transpose": _transposed, **dict.fromkeys(SCALES, _scaled)}
"""What a product does to its operands."""
FOLDINGS: Mapping[str, _Rule] = {
    **OPERANDS,
    "DequantizeLinear": _dequantized,
    "Pad": _padded,
    "Relu": _clipped,
    **dict.fromkeys(VIEWS, _reshaped),
}
"""Whether an op of that type vanishes into one that reads it, beside those that vanish there."""
