"""How large a value may be whose dimensions only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hetpart.graph.ir import DTYPE_BITS, Shape, Value

UNKNOWN_BYTES = 64
"""Assumed of a value about which nothing is known, not even from its op's inputs."""


def estimated_nbytes(dtype: str, shape: Shape | None, inputs: Sequence[Value]) -> int:
    """Bytes of an op's output, of which ``shape`` leaves dimensions open.

    They are taken to be as large as the open dimensions of its inputs; where its inputs have none, there are at most as
    many elements as in the largest of them. Weights count where nothing else is read.
    """
    flowing = [value for value in inputs if not value.is_constant] or list(inputs)
    if shape is None or dtype not in DTYPE_BITS:
        return max((value.nbytes for value in flowing), default=UNKNOWN_BYTES)
    known = prod(size for size in shape if size is not None)
    open_sizes = [_open_size(value) for value in flowing if value.shape is not None and None in value.shape]
    elements = known * max(open_sizes) if open_sizes else max((value.numel for value in flowing), default=0)
    return elements * DTYPE_BITS[dtype] // 8 or UNKNOWN_BYTES


def _open_size(value: Value) -> int:
    """Product of the open dimensions, as its estimate has them."""
    return max(1, value.numel // max(1, prod(size for size in value.shape or () if size is not None)))
