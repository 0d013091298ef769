"""Matrix products: two flops per multiply and add."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops, serial_cycles, spread_cycles

GATED = 6.0
"""Of each element, for the activation of the gate and the product with it."""
DETERMINANT_CYCLES, INVERSE_CYCLES = (13.0, 0.05), (22.0, 0.18)
"""Of each element of a square matrix, and of it for each row: 15, 14, 15 and 18 cycles for matrices of 8, 32, 64 and
128 rows on an EPYC 9004, taken to run at 3.5 GHz, and of the inverse, on all threads, 34, 25, 33 and 45. Eigen's
``PartialPivLU`` changes one row after the other."""
QUANTIZED_A = ("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")


def inner_dimension(o: Operands, position: int = 0) -> int:
    """Length of the sums in a matrix product: the last dimension of operand ``position``."""
    shape = o.shape(position)
    return shape[-1] if shape else 1


def transposed_inner(o: Operands) -> int:
    """The same where the left side may be transposed; ``transBatchA`` brings its rows before its batches."""
    shape = o.shape(0)
    if not o.integer("transA", 0) or len(shape) < 2:
        return inner_dimension(o)
    return shape[0] if o.integer("transBatchA", 0) else shape[-2]


@flops("FusedMatMul", domain=CONTRIB)
def _scaled_matmul(o: Operands) -> float:
    """Of each element a multiplication more, where there is a factor."""
    is_scaled = o.attribute("alpha", 1.0) != 1.0
    return o.output_numel() * (2.0 * transposed_inner(o) + is_scaled)


@flops("MatMul", "MatMulInteger", "QLinearMatMul")
def matmul_flops(o: Operands) -> float:
    """Each element written is a sum of products along the inner dimension."""
    return 2.0 * o.output_numel() * inner_dimension(o)


@flops("Gemm")
def _gemm(o: Operands) -> float:
    bias = o.output_numel() if o.input(2) is not None else 0
    return 2.0 * o.output_numel() * transposed_inner(o) + bias


@flops(
    "FusedGemm", "FusedMatMulActivation", "GemmFastGelu", "GemmFloat8", "MatMulInteger16",
    "QOrderedMatMul", "SparseToDenseMatMul", "TransposeMatMul", *QUANTIZED_A, domain=CONTRIB,
)  # fmt: skip
def _contrib_matmul(o: Operands) -> float:
    """The bias or activation on top is a few flops an element, as of the product itself."""
    return o.output_numel() * (2.0 * transposed_inner(o) + 2)


@flops(
    "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4", "MatMulFpQ4", "MatMulNBits",
    domain=CONTRIB,
)  # fmt: skip
def _packed_weight_matmul(o: Operands) -> float:
    """The weight is unpacked as it is read: the product's flops, and two for each weight."""
    inner = o.integer("K", inner_dimension(o))
    columns = o.integer("N", o.output_shape()[-1] if o.output_shape() else 1)
    return 2.0 * o.output_numel() * inner + 2.0 * inner * columns


@flops("MatMulNBitsMlp", domain=CONTRIB)
def _packed_gate(o: Operands) -> float:
    """Gate and values of a feed-forward layer, from weights that are unpacked, and their product on top."""
    inner, columns = o.integer("K", inner_dimension(o)), o.integer("N", 1)
    return 2 * (2.0 * o.output_numel() * inner + 2.0 * inner * columns) + GATED * o.output_numel()


@flops("MatMulNBitsQkv", domain=CONTRIB)
def _packed_projections(o: Operands) -> float:
    """Queries, keys and values, from weights that are unpacked."""
    inner = o.integer("K", inner_dimension(o))
    columns = o.integer("Nq", 1) + 2 * o.integer("Nkv", 1)
    rows = o.numel(0) // max(1, inner_dimension(o))
    return 2.0 * inner * columns * (rows + 1)


@flops("Det")
def _determinant(o: Operands) -> float:
    return 2.0 / 3.0 * o.numel(0) * inner_dimension(o)


serial_cycles.add(lambda o: _eliminated(o, *DETERMINANT_CYCLES), ("Det",))
spread_cycles.add(lambda o: _eliminated(o, *INVERSE_CYCLES), ("Inverse",), CONTRIB)


def _eliminated(o: Operands, each: float, row: float) -> float:
    return o.numel(0) * (each + row * inner_dimension(o))


@flops("Inverse", domain=CONTRIB)
def _inverse(o: Operands) -> float:
    return 2.0 * o.numel(0) * inner_dimension(o)


@flops("CDist", domain=CONTRIB)
def _pairwise_distances(o: Operands) -> float:
    return 3.0 * o.output_numel() * inner_dimension(o)
