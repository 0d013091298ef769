"""Ops that compute nothing: views move no byte, the others read what they write."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    bytes_read,
    bytes_written,
    moves_nothing,
    no_arithmetic,
    reads_nothing,
    serial_cycles,
)

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
METADATA = ("Constant", "OptionalHasElement", "SequenceEmpty", "SequenceLength", "Shape", "Size")
"""They read no byte of their input."""
REFERENCES = ("Optional", "OptionalGetElement")
"""They pass on what they are given."""
WHOLE = (
    "Concat", "DepthToSpace", "ReverseSequence", "SpaceToDepth", "Split", "Transpose",
    "ConcatFromSequence", "SequenceConstruct", "SplitToSequence",
)  # fmt: skip
"""They move every element of their inputs once."""
PARTIAL = ("CenterCropPad", "Crop", "DynamicSlice", "Expand", "Pad", "SequenceAt", "Slice", "Tile", "Trilu")
"""They read no more than they write, and no more than there is."""
CONTRIB_WHOLE = ("QLinearConcat", "RemovePadding", "RestorePadding", "UnfoldTensor")
CONTRIB_PARTIAL = ("Pad", "Trilu")
REPEATED = 10.5
"""Cycles of each run of elements that ``Tile`` copies, on one thread: of each element 9 to 13 in runs of one, 5 in runs
of two and 0.6 in runs of 16 on an EPYC 9004 of 3.5 GHz."""
FILLED = ("ConstantOfShape", "EyeLike", "GivenTensorFill")


def _read_what_is_written(o: Operands) -> int:
    return min(o.nbytes(0), o.output_nbytes())


def repeated_run(o: Operands) -> int:
    """Elements that ``o``, a Tile, copies at a time: those behind the last axis that it repeats, and of that axis."""
    run = 1
    for size, made in zip(reversed(o.shape(0)), reversed(o.output_shape()), strict=False):
        run *= max(1, size)
        if size != made:
            return run
    return max(1, run)


@serial_cycles("Tile")
def _repeated(o: Operands) -> float:
    return REPEATED * o.output_numel() / repeated_run(o)


moves_nothing((*VIEWS, *METADATA, *REFERENCES))
moves_nothing(("ExpandDims",), CONTRIB)
no_arithmetic((*WHOLE, *PARTIAL, *FILLED))
no_arithmetic((*CONTRIB_WHOLE, *CONTRIB_PARTIAL), CONTRIB)
bytes_read.add(_read_what_is_written, PARTIAL)
bytes_read.add(_read_what_is_written, CONTRIB_PARTIAL, CONTRIB)
reads_nothing(FILLED)
# A sequence with one tensor more, or less, holds those of the one before, which are not copied.
no_arithmetic(("SequenceErase", "SequenceInsert"))
for table in (bytes_read, bytes_written):
    table.add(lambda _: 0, ("SequenceErase",))
    table.add(lambda o: o.nbytes(1), ("SequenceInsert",))
