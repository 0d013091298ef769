"""Ops that compute nothing: views move no byte, the others read what they write."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import bytes_read, moves_nothing, no_arithmetic

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
METADATA = ("Shape", "Size", "Constant")
"""They read no byte of their input."""
WHOLE = ("Concat", "DepthToSpace", "ReverseSequence", "SpaceToDepth", "Split", "Transpose", "TensorScatter")
"""They move every element of their inputs once."""
PARTIAL = ("CenterCropPad", "Expand", "Slice", "Tile", "Trilu")
"""They read no more than they write, and no more than there is."""

moves_nothing((*VIEWS, *METADATA))
no_arithmetic((*WHOLE, *PARTIAL, "Pad"))


@bytes_read(*PARTIAL, "Pad")
def _read_what_is_written(o: Operands) -> int:
    return min(o.nbytes(0), o.output_nbytes())


@bytes_read("ConstantOfShape", "EyeLike")
def _read_nothing(_: Operands) -> int:
    return 0


no_arithmetic(("ConstantOfShape", "EyeLike"))
