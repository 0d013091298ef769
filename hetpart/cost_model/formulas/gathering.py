"""Reads and writes at indices: the rows asked for count, never the table."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import bytes_read, bytes_scattered, bytes_written, flops, no_arithmetic

GATHERS = ("Gather", "GatherElements", "GatherND", "ArrayFeatureExtractor")
SCATTERS = ("Scatter", "ScatterElements", "ScatterND")

no_arithmetic(GATHERS[:3])


@bytes_read(*GATHERS[:3])
def gathered_bytes(o: Operands) -> int:
    """Rows are read as large as they are written, and the indices besides."""
    return o.output_nbytes() + o.nbytes(1)


@bytes_scattered(*GATHERS[:3])
def gathered_rows(o: Operands) -> int:
    """The rows lie anywhere in their table."""
    return o.output_nbytes()


@flops(*SCATTERS)
def _scatter(o: Operands) -> float:
    return float(o.numel(2)) if o.attribute("reduction", "none") != "none" else 0.0


@bytes_read(*SCATTERS)
def _scatter_read(o: Operands) -> int:
    """ONNX Runtime copies the data and then writes the updates over it."""
    return o.input_bytes


@bytes_written(*SCATTERS)
def _scatter_written(o: Operands) -> int:
    return o.output_nbytes() + o.nbytes(2)


@bytes_scattered(*SCATTERS)
def _scattered_rows(o: Operands) -> int:
    return o.nbytes(2)


no_arithmetic(("Compress", "NonZero", "OneHot"))
