# pyright: reportUnknownMemberType=false
"""Recommenders with tables: Wide&Deep as MindSpore trains it, and DLRM as Facebook's reference does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

HIDDEN = (1024, 512, 256, 128)
BOTTOM, TOP = (512, 256, 64), (512, 256)


def perceptron(width: int, *hidden: int) -> nn.Sequential:
    """Layers with a rectifier behind each but the last."""
    layers: list[nn.Module] = []
    for wide in hidden:
        layers += [nn.Linear(width, wide), nn.ReLU()]
        width = wide
    return nn.Sequential(*layers[:-1])


class WideDeep(nn.Module):
    """``fields`` ids of one vocabulary, each with a value: vectors of them through layers, beside a weight of each.

    The wide part has one more slot of several ids, crossed features, whose weights are summed.
    """

    def __init__(self, rows: int, crossed: int, *, fields: int = 39, width: int = 80, hidden: Sequence[int] = HIDDEN):
        super().__init__()
        self.deep = nn.Embedding(rows, width, sparse=True)
        self.wide = nn.Embedding(rows, 1, sparse=True)
        self.crossed = nn.EmbeddingBag(crossed, 1, mode="sum", sparse=True)
        self.layers = perceptron(fields * width, *hidden, 1)
        for table in (self.deep, self.wide, self.crossed):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, ids: Tensor, values: Tensor, crossed: Tensor) -> Tensor:
        deep = (self.deep(ids) * values.unsqueeze(-1)).flatten(1)
        wide = (self.wide(ids).squeeze(-1) * values).sum(1)
        return self.layers(deep).squeeze(1) + wide + self.crossed(crossed).squeeze(1)


class DLRM(nn.Module):
    """A table for each of the categories, and the products of all pairs of vectors."""

    def __init__(
        self,
        cardinalities: Sequence[int],
        *,
        width: int = 16,
        dense: int = 13,
        bottom: Sequence[int] = BOTTOM,
        top: Sequence[int] = TOP,
        tables: Sequence[Tensor] | None = None,
    ):
        """``tables`` are weights that lie elsewhere, as in files; others are drawn."""
        super().__init__()
        weights = [None] * len(cardinalities) if tables is None else tables
        self.tables = nn.ModuleList(
            nn.Embedding(rows, width, sparse=True, _weight=_drawn(rows, width) if weight is None else weight)
            for rows, weight in zip(cardinalities, weights, strict=True)
        )
        vectors = len(cardinalities) + 1
        self.bottom = perceptron(dense, *bottom, width)
        self.top = perceptron(width + vectors * (vectors - 1) // 2, *top, 1)
        self.register_buffer("pairs", torch.stack(tuple(torch.tril_indices(vectors, vectors, -1))), persistent=False)

    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        first = self.bottom(dense)
        vectors = torch.stack([first, *(table(ids[:, column]) for column, table in enumerate(self.tables))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        pairs: Tensor = self.get_buffer("pairs")
        return self.top(torch.cat((first, products[:, pairs[0], pairs[1]]), 1)).squeeze(1)


def _drawn(rows: int, width: int) -> Tensor:
    return torch.empty(rows, width).uniform_(-(rows**-0.5), rows**-0.5)


def clicked(model: nn.Module, *batch: Tensor) -> Tensor:
    """The loss of a batch whose last part says what was clicked."""
    return nn.functional.binary_cross_entropy_with_logits(model(*batch[:-1]), batch[-1])
