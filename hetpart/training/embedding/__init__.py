"""Embedding tables whose gradient is never dense."""

from hetpart.training.embedding.bags import Bags, gradient_blocks, lookup, lookup_bags, row_gradients
from hetpart.training.embedding.mapped import beside, file_of, fill_normal_, flush, mapped, mapped_table
from hetpart.training.embedding.table import Picked, Table
from hetpart.training.embedding.unique import Unique, unique

__all__ = [
    "Bags",
    "Picked",
    "Table",
    "Unique",
    "beside",
    "file_of",
    "fill_normal_",
    "flush",
    "gradient_blocks",
    "lookup",
    "lookup_bags",
    "mapped",
    "mapped_table",
    "row_gradients",
    "unique",
]
