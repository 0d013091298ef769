"""Tensors cut into blocks that stay in a core's caches while several passes go over them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

BLOCK_ELEMENTS = 1 << 17
"""512 KiB of fp32: few calls for a large tensor, and what an update touches of it fits the caches."""


def all_contiguous(*tensors: Tensor) -> bool:
    """Whether ``flat_blocks`` can cut them."""
    return all(tensor.is_contiguous() for tensor in tensors)


def flat_blocks(*tensors: Tensor, elements: int = BLOCK_ELEMENTS) -> Iterator[tuple[Tensor, ...]]:
    """Views of the same elements of each tensor, block by block. All are contiguous and of one size."""
    flats = [tensor.view(-1) for tensor in tensors]
    for start in range(0, flats[0].numel(), elements):
        yield tuple(flat[start : start + elements] for flat in flats)


def as_vector(rows: Tensor) -> Tensor:
    """Rows of one number as a vector, a view; others as they are.

    Elements that are picked by an index take PyTorch a quarter to a third of what rows of 4 bytes take.
    """
    return rows[:, 0] if rows.shape[1:] == (1,) else rows
