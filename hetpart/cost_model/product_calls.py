"""Calls of matrix products: which sizes decide what one takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hetpart.cost_model.formulas.matmul import transposed_inner
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.moving_calls import KernelCall
from hetpart.cost_model.packing import MATRIX_RANK, is_single
from hetpart.graph.ir import Op

BATCHED = PLAIN, TURNED = ("batched_gemm", "batched_gemm_transposed")
"""Families of products whose right side is no weight."""
SCALING = frozenset({"Div", "Mul"})
FEWEST_TOGETHER = 2
"""Rows of a product that are computed together."""


def is_scaled(product: Op, members: Sequence[Op]) -> bool:
    """Whether a factor is multiplied in: of the product, or one of ``members`` that became so."""
    return product.attributes.get("alpha", 1.0) != 1.0 or any(op.op_type in SCALING for op in members)


def scaled(call: KernelCall) -> KernelCall:
    """ONNX Runtime computes a row alone, which takes two thirds of the time, only where no factor is multiplied in."""
    rows, *rest = call.sizes
    single = call.family in BATCHED and rows == 1
    return replace(call, sizes=(FEWEST_TOGETHER, *rest)) if single else call


def _is_turned(operand: int | None, members: Sequence[Op]) -> bool:
    """Whether a Transpose is among ``members`` that make ``operand``, which may be scaled behind it."""
    makers = {value: op for op in members for value in op.results}
    while operand in makers and makers[operand].op_type != "Transpose":
        operand = next((value for value in makers[operand].inputs if value in makers), None)
    return operand in makers


def batched_family(op: Op, members: Sequence[Op]) -> str:
    """Of a product: its right side is read as it lies, or as what a Transpose of ``members`` would make of it."""
    turned = _is_turned(op.inputs[1], members)
    return TURNED if turned or op.attributes.get("transB") else PLAIN


def gemm(o: Operands, family: str) -> KernelCall | None:
    """Rows of all leading dimensions together where the right side is one matrix, else a product for each.

    A single column is computed as a row is, of which the left side is the matrix.
    """
    made, left, right = o.output_shape(), o.shape(0), o.input(1)
    if right is None or len(left) < 1 or (right.shape is not None and not right.shape):
        return None
    inner = transposed_inner(o)
    if right.shape is not None and len(right.shape) == 1:
        return KernelCall(PLAIN, (1, inner, 1), prod(made))
    if len(made) < 1:
        return None
    columns = made[-1]
    if right.shape is not None and len(right.shape) == MATRIX_RANK:
        rows = prod(made[:-1])
        return KernelCall(
            "gemm", (1, inner, rows) if columns == 1 and is_single(o.op, o.graph) else (rows, inner, columns)
        )
    rows = made[-2] if len(made) > 1 else 1
    lone = columns == 1 and family in BATCHED
    return KernelCall(
        PLAIN if lone else family, (columns, inner, rows) if lone else (rows, inner, columns), prod(made[:-2])
    )
