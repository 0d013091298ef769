"""Matrix products: two flops per multiply and add."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import flops


def inner_dimension(o: Operands, position: int = 0) -> int:
    """Length of the sums in a matrix product: the last dimension of operand ``position``."""
    shape = o.shape(position)
    return shape[-1] if shape else 1


@flops("MatMul", "MatMulInteger", "QLinearMatMul")
def matmul_flops(o: Operands) -> float:
    """Each element written is a sum of products along the inner dimension."""
    return 2.0 * o.output_numel() * inner_dimension(o)


@flops("Gemm")
def _gemm(o: Operands) -> float:
    shape = o.shape(0)
    inner = shape[0 if o.integer("transA", 0) else -1] if shape else 1
    bias = o.output_numel() if o.input(2) is not None else 0
    return 2.0 * o.output_numel() * inner + bias


@flops("Einsum")
def _einsum(o: Operands) -> float:
    """Every combination of the equation's labels is one product per operand and one sum, as in a plain loop nest."""
    equation = str(o.attribute("equation", ""))
    operands = [value for value in o.inputs if value is not None]
    sizes = _label_sizes(equation, [o.shape(i) for i in range(len(operands))])
    return float(max(1, len(operands)) * prod(sizes.values()))


def _label_sizes(equation: str, shapes: list[tuple[int, ...]]) -> dict[str, int]:
    """Length of every label of an einsum equation; dimensions under an ellipsis get labels of their own."""
    sizes: dict[str, int] = {}
    terms = equation.replace(" ", "").split("->")[0].split(",")
    for term, shape in zip(terms, shapes, strict=False):
        for label, size in zip(_labels(term, len(shape)), shape, strict=False):
            sizes[label] = max(size, sizes.get(label, 1))
    return sizes


def _labels(term: str, rank: int) -> list[str]:
    head, ellipsis, tail = term.partition("...")
    if not ellipsis:
        return list(term)
    hidden = rank - len(head) - len(tail)
    return [*head, *(f"...{hidden - i}" for i in range(hidden)), *tail]


@flops("Det")
def _determinant(o: Operands) -> float:
    size = inner_dimension(o)
    return 2.0 / 3.0 * o.numel(0) * size
