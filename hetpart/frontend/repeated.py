# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Parts of translations: numbers, ranks and what is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.onnx_opset import opset20

op: Any = opset20


def rank(x: ir.Value) -> int:
    """Of a value whose shape is known, be it by names."""
    assert x.shape is not None
    return len(x.shape)


def constant(numbers: Sequence[int]) -> Any:
    """A vector of whole numbers."""
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def repeated(x: ir.Value, repeats: Any, dim: int | None = None, output_size: Any = None) -> Any:
    """Every part along an axis ``repeats`` times: the exporter repeats another axis where a size says how often."""
    del output_size
    if dim is None or not rank(x):
        x, axis, behind = op.Reshape(x, constant([-1])), 0, 0
    else:
        axis = dim % rank(x)
        behind = rank(x) - axis - 1
    times = constant([repeats]) if isinstance(repeats, int) else op.Reshape(repeats, constant([-1]))
    made = op.Tile(  # ONNX Runtime leaves out an Expand to nothing
        op.Unsqueeze(x, constant([axis + 1])),
        op.Concat(constant([1] * (axis + 1)), times, constant([1] * behind), axis=0),
    )
    along = op.Mul(op.Shape(x, start=axis, end=axis + 1), times)
    sizes = op.Concat(op.Shape(x, start=0, end=axis), along, op.Shape(x, start=axis + 1), axis=0)
    return op.Reshape(made, sizes, allowzero=1)
