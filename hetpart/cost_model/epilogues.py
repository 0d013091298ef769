"""Which kernel takes over the one op that reads what another makes: a table of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetpart.cost_model.foldings import HALF, SCALED_DTYPES, SCALES, is_left_half, scalar_beside
from hetpart.cost_model.kernels import lacks_half
from hetpart.cost_model.quantized import QUANTIZED_ON_CPU, is_quantized
from hetpart.cost_model.sums import GEMM_DTYPES, MATRIX, adds_bias, is_row_sum, is_skip, rank
from hetpart.cost_model.turning import permutation
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.devices import Provider
from hetpart.graph.ir import Op, Value

EVERYWHERE = frozenset({Provider.CPU, Provider.CUDA})
ON_CPU = frozenset({Provider.CPU})
ON_CUDA = EVERYWHERE - ON_CPU
NOWHERE: frozenset[Provider] = frozenset()

CONV_ACTIVATIONS = ("Clip", "HardSigmoid", "LeakyRelu", "Sigmoid", "Tanh")
GEMM_ACTIVATIONS = (
    "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip

TANH_GELU = "Gelu by tanh"
"""What rows call a Gelu that is approximated."""

_Rule = Callable[[Op, Op, Wiring], frozenset[Provider]]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A row: a producer and its sole consumer may share a kernel."""

    kernel: str
    """What the CPU provider calls it; ``""`` is what it called the producer's."""
    rule: _Rule
    """Providers on which they do, of the two."""


def quantized_kernel(op: Op, consumer: Op, wiring: Wiring) -> Epilogue | None:
    """The row of ops that integers stand around."""
    if op.op_type == "DequantizeLinear" and is_quantized(consumer, wiring):
        return Epilogue(QUANTIZED_ON_CPU[consumer.op_type], _on_cpu)
    if consumer.op_type == "QuantizeLinear" and is_quantized(op, wiring):
        return Epilogue(QUANTIZED_ON_CPU[op.op_type], _on_cpu)
    return None


def bias_before(skip: Op, wiring: Wiring) -> Op | None:
    """The sum with a vector that a normalization computes before the sum ``skip``, which it takes over."""
    for value in wiring.inputs(skip) if is_skip(skip, wiring) else ():
        add = wiring.producer(value)
        if add is not None and is_op(add, "Add") and wiring.sole_consumer(add) is skip and _adds_vector(add, wiring):
            return add
    return None


def _adds_vector(add: Op, wiring: Wiring) -> bool:
    first, second = wiring.operands(add)
    vector = first is not None and second is not None and second.is_constant and rank(second) == 1
    return vector and first is not None and rank(first) != 1 and is_row_sum(add, wiring)


def _everywhere(_: Op, __: Op, ___: Wiring) -> frozenset[Provider]:
    return EVERYWHERE


def _on_cpu(_: Op, __: Op, ___: Wiring) -> frozenset[Provider]:
    return ON_CPU


def _bias(product: Op, add: Op, wiring: Wiring) -> frozenset[Provider]:
    return EVERYWHERE if adds_bias(product, add, wiring) else NOWHERE


def _sum(gemm: Op, total: Op, wiring: Wiring) -> frozenset[Provider]:
    """A Gemm without a bias adds what has its shape, or is stretched to it."""
    others = wiring.others(total, gemm.results[0])
    values = wiring.graph.values
    alone = is_op(gemm, "Gemm") and len(gemm.inputs) == len(total.inputs) == 2 and len(others) == 1
    shape = values[gemm.results[0]].shape
    return EVERYWHERE if alone and values[total.results[0]].shape == shape else NOWHERE


def _normalized(product: Op, normalization: Op, wiring: Wiring) -> frozenset[Provider]:
    """Where the normalization goes into the weights of what is before it."""
    left, right = wiring.operands(product)[:2]
    constant = right is not None and right.is_constant and _is_scale(normalization, wiring)
    matrices = not is_op(product, "MatMul") or (left is not None and rank(left) == MATRIX)
    return EVERYWHERE if constant and matrices and wiring.inputs(normalization)[0] == product.results[0] else NOWHERE


def _is_scale(normalization: Op, wiring: Wiring) -> bool:
    constant = all(v is not None and v.is_constant for v in wiring.operands(normalization)[1:])
    return constant and len(normalization.results) == 1


def _channelwise(conv: Op, op: Op, wiring: Wiring) -> frozenset[Provider]:
    """A factor or summand of each channel goes into the weights, if it is the second operand; a scalar factor too."""
    made, second = wiring.graph.values[conv.results[0]], wiring.operands(op)[1]
    constant = all(value is None or value.is_constant for value in wiring.operands(conv)[1:])
    if second is None or not (second.is_constant and constant) or not made.shape:
        return NOWHERE
    one = second.shape == () and op.op_type == "Mul"
    return EVERYWHERE if one or _is_of_channels(second, made) else NOWHERE


def _is_of_channels(vector: Value, image: Value) -> bool:
    channels, sizes = (image.shape or (0, 0))[1], tuple(vector.shape or ())
    spatial = (1,) * (len(image.shape or ()) - 2)
    return sizes in ((channels, *spatial), (1, channels, *spatial))


def _clipped(_: Op, clip: Op, wiring: Wiring) -> frozenset[Provider]:
    constant = all(v is None or v.is_constant for v in wiring.operands(clip)[1:])
    return ON_CPU if constant else NOWHERE


def _of_rows(product: Op, _: Op, wiring: Wiring) -> frozenset[Provider]:
    """An activation counts behind a Gemm of two dimensions; one of more has a Reshape between."""
    made = wiring.graph.values[product.results[0]]
    of_rows = is_op(product, "Gemm") or rank(made) == MATRIX
    return ON_CPU if of_rows and made.dtype in GEMM_DTYPES else NOWHERE


def _before_gelu(add: Op, _: Op, wiring: Wiring) -> frozenset[Provider]:
    return EVERYWHERE if is_row_sum(add, wiring) else NOWHERE


def _skip(add: Op, norm: Op, wiring: Wiring) -> frozenset[Provider]:
    first = wiring.inputs(norm)[:1] == add.results[:1]
    if not (first and norm.op_type == "LayerNormalization" and is_skip(add, wiring)):
        return NOWHERE
    return ON_CUDA if _stays_half(norm, wiring) else EVERYWHERE


def _stays_half(norm: Op, wiring: Wiring) -> bool:
    """Whether the CPU normalizes in half precision, behind a sum that is cast: where not all cast what it makes."""
    if wiring.graph.values[norm.results[0]].dtype != HALF:
        return False
    users = [wiring.graph.ops[user] for user in wiring.users(norm)]
    return not users or any(not lacks_half(user, wiring.graph) or _is_flattened(user, wiring) for user in users)


def _is_flattened(product: Op, wiring: Wiring) -> bool:
    """Whether a Reshape goes before a product of batches, which becomes one of matrices with its bias."""
    add, left = wiring.sole_consumer(product), wiring.operands(product)[0]
    biased = is_op(product, "MatMul") and add is not None and is_op(add, "Add") and adds_bias(product, add, wiring)
    return biased and left is not None and rank(left) != MATRIX


def _scaled(product: Op, scale: Op, wiring: Wiring) -> frozenset[Provider]:
    """By a constant of one element."""
    scales = scalar_beside(scale, wiring) == product.results[0]
    fits = scales and wiring.graph.values[product.results[0]].dtype in SCALED_DTYPES
    everywhere = ON_CUDA if is_left_half(scale, wiring) else EVERYWHERE
    return everywhere if fits else NOWHERE


def _turned(gemm: Op, transpose: Op, wiring: Wiring) -> frozenset[Provider]:
    """The product of the operands turned is the product turned, where no bias is added."""
    plain = is_op(gemm, "Gemm") and len(gemm.inputs) == 2
    return EVERYWHERE if plain and permutation(transpose, wiring) == (1, 0) else NOWHERE


def _reciprocal(quotient: Op, product: Op, wiring: Wiring) -> frozenset[Provider]:
    """``1 / x · y`` is ``y / x``."""
    one, divisor = wiring.operands(quotient)
    ones = one is not None and one.is_constant and one.numel == 1 and one.content is not None and one.content[0] == 1
    same = divisor is not None and divisor.shape == wiring.graph.values[product.results[0]].shape
    return EVERYWHERE if ones and same else NOWHERE


EPILOGUES: Mapping[tuple[str, str], Epilogue] = {
    ("MatMul", "Add"): Epilogue("Gemm", _bias),
    ("MatMul", "BatchNormalization"): Epilogue("Gemm", _normalized),
    ("Gemm", "Sum"): Epilogue("Gemm", _sum),
    ("Gemm", "Transpose"): Epilogue("Gemm", _turned),
    **{("Gemm", kind): Epilogue("FusedGemm", _of_rows) for kind in GEMM_ACTIVATIONS},
    **{(product, kind): Epilogue("FusedMatMul", _scaled) for product in ("MatMul", "FusedMatMul") for kind in SCALES},
    ("Conv", "BatchNormalization"): Epilogue("", _normalized),
    ("ConvTranspose", "BatchNormalization"): Epilogue("", _normalized),
    ("Conv", "Mul"): Epilogue("", _channelwise),
    ("Conv", "Add"): Epilogue("", _channelwise),
    ("Conv", "Relu"): Epilogue("FusedConv", _everywhere),
    ("Conv", "Clip"): Epilogue("FusedConv", _clipped),
    **{("Conv", kind): Epilogue("FusedConv", _on_cpu) for kind in CONV_ACTIVATIONS if kind != "Clip"},
    ("Add", "LayerNormalization"): Epilogue("SkipLayerNormalization", _skip),
    ("Add", "Gelu"): Epilogue("BiasGelu", _before_gelu),
    ("Add", TANH_GELU): Epilogue("FastGelu", _before_gelu),
    ("Transpose", "Transpose"): Epilogue("Transpose", _everywhere),
    ("Div", "Mul"): Epilogue("Div", _reciprocal),
}  # fmt: skip
"""Rows by what the CPU provider calls the producer's kernel and its consumer's."""
EXTENDED = frozenset(kernel for kernel, _ in EPILOGUES)
"""Kernels that take another op over, or are taken over by what reads them."""
