# pyright: reportUnknownMemberType=false
"""Seeded data with a signal that a model can find: batch k is the same whenever and wherever it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hetpart.training.limits import FROM_0, require_cardinalities, require_count


def power_law(draws: NDArray[np.float64], rows: int, alpha: float) -> NDArray[np.int64]:
    """Ids below ``rows`` from uniform ``draws`` in [0, 1): id i comes with probability ∝ (i + 1)^−alpha, nearly.

    The inverse of the continuous law on [1, rows + 1), rounded down.
    """
    if alpha == 1.0:
        places = (rows + 1.0) ** draws
    else:
        places = ((((rows + 1.0) ** (1.0 - alpha)) - 1.0) * draws + 1.0) ** (1.0 / (1.0 - alpha))
    return np.clip(places.astype(np.int64) - 1, 0, rows - 1)


def _require_counts(**given: tuple[int, int]) -> None:
    """See that each is a whole number from its least on."""
    for name, (value, least) in given.items():
        require_count(name, value, least)


@dataclass(frozen=True, slots=True)
class Clicks:
    """Batches (ids int64 [B, F] or [B, F, hot], dense float32 [B, dense], label float32 [B]).

    Every id of every field has a hidden effect, drawn once and never stored; a click follows the logistic law of the
    sum of effects and of a hidden plane through ``dense``.

    Raises:
        InvalidOptionError: a field has no row, a batch no example, or a number is none that it may be.
    """

    cardinalities: Sequence[int]
    """Rows of each field's table."""
    batch_size: int
    batches: int
    dense: int = 13
    hot: int = 1
    """Ids per field; the batch has a dimension for them where there is more than one."""
    alpha: float = 1.05
    """Of the power law of ids: NVIDIA's benchmarks of embedding caches use 1.05 to 1.2."""
    strength: float = 2.0
    """Deviation of the logit: 0 leaves labels to chance."""
    seed: int = 0

    def __post_init__(self) -> None:
        require_cardinalities(self.cardinalities, 1)
        _require_counts(batch_size=(self.batch_size, 1), batches=(self.batches, 0), dense=(self.dense, 0))
        _require_counts(hot=(self.hot, 1), seed=(self.seed, 0))
        FROM_0.number("alpha", self.alpha)
        FROM_0.number("strength", self.strength)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        return (self[index] for index in range(self.batches))

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        if not 0 <= index < self.batches:
            raise IndexError(index)
        random = np.random.default_rng((self.seed, index))
        draws = random.random((self.batch_size, len(self.cardinalities), self.hot))
        columns = [power_law(draws[:, i], rows, self.alpha) for i, rows in enumerate(self.cardinalities)]
        ids = np.stack(columns, axis=1)
        dense = random.standard_normal((self.batch_size, self.dense)).astype(np.float32)
        chance = 1.0 / (1.0 + np.exp(-self._logits(ids, dense)))
        label = random.random(self.batch_size) < chance
        flat = ids if self.hot > 1 else ids[:, :, 0]
        return torch.from_numpy(flat), torch.from_numpy(dense), torch.from_numpy(label.astype(np.float32))

    def _logits(self, ids: NDArray[np.int64], dense: NDArray[np.float32]) -> NDArray[np.float64]:
        fields = np.arange(len(self.cardinalities), dtype=np.uint64)[None, :, None]
        effects = hidden_effect(ids.astype(np.uint64), fields, self.seed).sum(axis=(1, 2))
        plane = np.random.default_rng((self.seed, 1 << 40)).standard_normal(self.dense)
        terms = ids.shape[1] * ids.shape[2] + self.dense
        return self.strength * (effects + dense @ plane) / np.sqrt(terms)


def hidden_effect(ids: NDArray[np.uint64], fields: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """Deviation 1 over the ids: the bits of (seed, field, id) mixed by SplitMix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        mixed = (
            ids
            + (fields + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        )
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    uniform = (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64
    return (uniform - 0.5) * np.sqrt(12.0)


@dataclass(frozen=True, slots=True)
class Pictures:
    """Batches (images float32 [B, *shape], label int64 [B]): each class is a pattern under noise."""

    shape: tuple[int, ...]
    classes: int
    batch_size: int
    batches: int
    noise: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for size in self.shape:
            require_count("a size of shape", size)
        _require_counts(classes=(self.classes, 1), batch_size=(self.batch_size, 1), batches=(self.batches, 0))
        _require_counts(seed=(self.seed, 0))
        FROM_0.number("noise", self.noise)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        patterns = np.random.default_rng((self.seed, 1 << 40)).standard_normal((self.classes, *self.shape))
        for index in range(self.batches):
            random = np.random.default_rng((self.seed, index))
            label = random.integers(0, self.classes, self.batch_size)
            images = patterns[label] + self.noise * random.standard_normal((self.batch_size, *self.shape))
            yield torch.from_numpy(images.astype(np.float32)), torch.from_numpy(label)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Batches (tokens int64 [B, length], the tokens that follow them [B, length]) of a hidden chain.

    After token t comes, with probability ``order``, the one token that the chain has for t; else any.
    """

    vocabulary: int
    length: int
    batch_size: int
    batches: int
    order: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        _require_counts(vocabulary=(self.vocabulary, 1), length=(self.length, 1), batch_size=(self.batch_size, 1))
        _require_counts(batches=(self.batches, 0), seed=(self.seed, 0))
        FROM_0.number("order", self.order)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        follows = np.random.default_rng((self.seed, 1 << 40)).permutation(self.vocabulary)
        for index in range(self.batches):
            random = np.random.default_rng((self.seed, index))
            tokens = random.integers(0, self.vocabulary, (self.batch_size, self.length + 1))
            orderly = random.random(tokens.shape) < self.order
            for place in range(1, self.length + 1):
                tokens[:, place] = np.where(orderly[:, place], follows[tokens[:, place - 1]], tokens[:, place])
            yield torch.from_numpy(tokens[:, :-1].copy()), torch.from_numpy(tokens[:, 1:].copy())
