"""Many ids per slot, their rows summed: ``torch.nn.EmbeddingBag`` of mode ``sum``, and what its gradient is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from hetpart.training.embedding.unique import Unique
from hetpart.training.optimizers.blocks import BLOCK_ELEMENTS, as_vector


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """B bags of N ids in all. A mean is a sum whose weights are 1 / length."""

    ids: Tensor
    """Integers [N]."""
    offsets: Tensor
    """int64 [B]: where each bag starts; it ends where the next one starts."""
    weights: Tensor | None = None
    """[N]: what each id's row is multiplied with."""

    @classmethod
    def of(cls, ids: Tensor, weights: Tensor | None = None) -> Bags:
        """Bags of one length each: ``ids`` and ``weights`` are [B, length]."""
        offsets = torch.arange(0, ids.numel(), max(1, ids.shape[1]))
        return cls(ids.reshape(-1), offsets, None if weights is None else weights.reshape(-1))

    def owners(self) -> Tensor:
        """int64 [N]: the bag of each id."""
        ends = torch.cat((self.offsets[1:], self.offsets.new_tensor([self.ids.numel()])))
        return torch.repeat_interleave(ends - self.offsets, output_size=self.ids.numel())

    def sources(self) -> tuple[Tensor, Tensor | None]:
        """What ``gradient_blocks`` takes beside the gradient of the sums."""
        return self.owners(), self.weights


def lookup(table: Tensor, ids: Tensor, out: Tensor | None = None) -> Tensor:
    """``table[ids]``, [*ids.shape, d], into ``out`` where it is given: fresh memory costs more than the copy."""
    rows = table.detach()
    into = rows.new_empty((*ids.shape, *rows.shape[1:])) if out is None else out
    places = into.view(ids.numel(), *rows.shape[1:])
    torch.index_select(as_vector(rows), 0, ids.reshape(-1), out=as_vector(places))
    return into


def lookup_bags(table: Tensor, bags: Bags, out: Tensor | None = None) -> Tensor:
    """The sum of each bag's rows, [B, d], into ``out`` where it is given. An empty bag gives zeros."""
    rows = table.detach()
    into = rows.new_empty((len(bags.offsets), rows.shape[1])) if out is None else out
    length = _bags_per_block(rows.shape[1])
    for first in range(0, len(bags.offsets), length):
        offsets = bags.offsets[first : first + length]
        begin = int(offsets[0])
        end = int(bags.offsets[first + length]) if first + length < len(bags.offsets) else bags.ids.numel()
        into[first : first + length] = weighted_sums(
            rows, bags.ids[begin:end], offsets - begin, None if bags.weights is None else bags.weights[begin:end]
        )
    return into


def gradient_blocks(
    gradient: Tensor, of: Unique, owners: Tensor | None = None, weights: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """(ids, the gradient of their rows) for some of ``of.ids`` at a time, ascending.

    ``gradient`` is that of the looked-up rows, [N, d] in any shape; or of bags, [B, d], whose ``owners`` and
    ``weights``, both [N], go with the ids. The transpose of a lookup is a bag: a row's gradient is the sum of the
    gradients wherever the row went.
    """
    slopes = gradient.reshape(-1, gradient.shape[-1])
    length = _bags_per_block(slopes.shape[1])
    for first in range(0, len(of.ids), length):
        starts = of.starts[first : first + length + 1]
        begin, end = int(starts[0]), int(starts[-1])
        places = of.order[begin:end]
        part = None if weights is None else weights[places]
        sources = places if owners is None else owners[places]
        yield of.ids[first : first + length], weighted_sums(slopes, sources, starts[:-1] - begin, part)


def row_gradients(gradient: Tensor, of: Unique, bags: Bags | None = None) -> Tensor:
    """All of ``gradient_blocks`` as one tensor [U, d]."""
    blocks = [block for _, block in gradient_blocks(gradient, of, *(() if bags is None else bags.sources()))]
    return torch.cat(blocks) if blocks else gradient.new_empty((0, gradient.shape[-1]))


def weighted_sums(rows: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
    """PyTorch's own bag, [B, d]: it runs over all cores, and an order of summing that does not change."""
    return embedding_bag(ids.to(torch.int64), rows, offsets, per_sample_weights=weights, mode="sum")


def _bags_per_block(width: int) -> int:
    return max(1, BLOCK_ELEMENTS // max(1, width))
