"""Reads and writes at indices: the rows asked for count, never the table."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    ML,
    bytes_read,
    bytes_scattered,
    bytes_written,
    flops,
    no_arithmetic,
)

GATHERS = ("Gather", "GatherElements", "GatherND")
SCATTERS = ("Scatter", "ScatterElements", "ScatterND")


CACHED_BYTES = 2**20
"""A table of this size stays in any processor's cache: a row that was read is not fetched again."""


def gathered_bytes(o: Operands) -> int:
    """Rows are read as large as they are written, and the indices besides."""
    return gathered_rows(o) + o.nbytes(1)


def gathered_rows(o: Operands) -> int:
    """The rows lie anywhere in their table; of a small one all are read once, however often they are asked for."""
    table = o.nbytes(0)
    return min(table, o.output_nbytes()) if table <= CACHED_BYTES else o.output_nbytes()


def _far_rows(o: Operands) -> int:
    """Single elements of a table that a near cache holds are found in it as fast as any."""
    near = o.op.op_type == "GatherElements" and o.nbytes(0) <= CACHED_BYTES
    return 0 if near else gathered_rows(o)


def slice_elements(o: Operands) -> int:
    """Elements of what each index tuple of a ``GatherND`` takes."""
    return max(1, o.output_numel() // max(1, index_tuples(o)))


def index_tuples(o: Operands) -> int:
    """How many slices a ``GatherND`` takes, if not one for each place of its batch dimensions as well."""
    return o.numel(1) // max(1, (o.shape(1) or (1,))[-1])


for types, domain in ((GATHERS, ""), (("ArrayFeatureExtractor",), ML), (("GatherND", "TorchEmbedding"), CONTRIB)):
    no_arithmetic(types, domain)
    bytes_read.add(gathered_bytes, types, domain)
    bytes_scattered.add(_far_rows, types, domain)


def _packed_row_bytes(o: Operands) -> int:
    """As many bytes of each table as its share of the elements asked for, and the indices."""
    whole = o.nbytes(0) + o.nbytes(2) + o.nbytes(3)
    packed = max(1, o.numel(0)) * (8 // max(1, o.integer("bits", 4)) if _is_byte(o) else 1)
    return round(whole * min(1.0, o.output_numel() / packed)) + o.nbytes(1)


def _is_byte(o: Operands) -> bool:
    table = o.input(0)
    return table is not None and table.dtype == "uint8"


flops.add(lambda o: 2.0 * o.output_numel(), ("GatherBlockQuantized",), CONTRIB)
bytes_read.add(_packed_row_bytes, ("GatherBlockQuantized",), CONTRIB)
bytes_scattered.add(lambda o: _packed_row_bytes(o) - o.nbytes(1), ("GatherBlockQuantized",), CONTRIB)


@flops(*SCATTERS)
def _scatter(o: Operands) -> float:
    return float(o.numel(2)) if o.attribute("reduction", "none") != "none" else 0.0


@bytes_written(*SCATTERS)
def _scatter_written(o: Operands) -> int:
    """The data is copied, then the updates are written over it; ``cost_model.updates`` says where no copy is made."""
    return o.output_nbytes() + o.nbytes(2)


@bytes_scattered(*SCATTERS)
def _scattered_rows(o: Operands) -> int:
    return o.nbytes(2)


no_arithmetic(("TensorScatter",))
bytes_written.add(lambda o: o.output_nbytes() + o.nbytes(1), ("TensorScatter",))
no_arithmetic(("Compress", "NonZero", "OneHot"))
