"""Operator → Work, a file per family. An op without a formula has no Work: never a silent zero."""

from __future__ import annotations

from hetpart.cost_model.formulas import (
    along_axes,
    attention,
    by_dtype,
    classical,
    control,
    convolution,
    decoding,
    einsum,
    elementwise,
    experts,
    gathering,
    generation,
    integers,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    rotary,
    scalar,
    selection,
    tables,
    updates,
    windows,
)
from hetpart.cost_model.formulas.lookup import unknown_work, work_of

__all__ = ["FAMILIES", "unknown_work", "work_of"]

FAMILIES = (
    along_axes, attention, by_dtype, classical, control, convolution, decoding, einsum, elementwise, experts, gathering,
    generation, integers, matmul, movement, normalization, pooling, quantization, recurrent, rotary, scalar,
    selection, tables, updates, windows,
)  # fmt: skip
"""Modules that fill the tables when they are imported."""
