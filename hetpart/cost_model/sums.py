"""Which kernel takes an Add over: a matrix product, a normalization behind it, a Gelu behind it, or none."""

from __future__ import annotations

from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.graph.ir import Op, Value

GEMM_DTYPES = frozenset({"float32", "float16", "bfloat16"})
"""Products of others keep their sums apart."""
MATRIX = 2
SKIP_RANK = 3
SKIP_OPERANDS = ("input", "skip")


def adds_bias(product: Op, add: Op, wiring: Wiring) -> bool:
    """Whether ``product`` by one matrix and ``add`` become a Gemm: to rows it adds any matrix, else a vector."""
    values = wiring.graph.values
    left, right = wiring.operands(product)[:2]
    others = wiring.others(add, product.results[0])
    if left is None or right is None or len(others) != 1 or left.dtype not in GEMM_DTYPES or rank(right) != MATRIX:
        return False
    bias = values[others[0]].shape or ()
    if rank(left) == MATRIX and len(bias) == MATRIX:
        fits = values[add.results[0]].shape == values[product.results[0]].shape
        return fits and not _is_later_product(wiring.producer(others[0]), product)
    return len(bias) == 1 and bias == (right.shape or ())[-1:]


def rank(value: Value) -> int | None:
    """Number of dimensions; None where it is not known."""
    return None if value.shape is None else len(value.shape)


def _is_later_product(other: Op | None, product: Op) -> bool:
    """Of two products that are added, the last one takes the sum over."""
    return other is not None and is_op(other, "MatMul") and other.id > product.id


def is_gemm(add: Op, wiring: Wiring) -> bool:
    """Whether a product takes ``add`` over."""
    products = (op for op in map(wiring.producer, add.inputs) if op is not None and is_op(op, "MatMul"))
    return any(wiring.sole_consumer(op) is add and adds_bias(op, add, wiring) for op in products)


def is_row_sum(add: Op, wiring: Wiring) -> bool:
    """Whether ``add`` adds a vector along the last axis, and no product takes it over."""
    made = wiring.graph.values[add.results[0]].shape
    rows = [
        shape for shape in (wiring.graph.values[v].shape for v in add.uses) if shape is not None and len(shape) == 1
    ]
    return made is not None and len(made) > 1 and made[-1:] in rows and not is_gemm(add, wiring)


def is_skip(add: Op, wiring: Wiring) -> bool:
    """Whether ``add`` adds two batches of sequences of one shape, as a normalization that takes both does."""
    shapes = {wiring.graph.values[v].shape for v in (*add.uses, *add.results)}
    return len(add.uses) == len(SKIP_OPERANDS) and len(shapes) == 1 and len(shapes.pop() or ()) == SKIP_RANK
