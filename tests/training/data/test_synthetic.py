from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from hetpart.errors import InvalidOptionError
from hetpart.training.data import Clicks, Pictures, Tokens
from hetpart.training.data.synthetic import hidden_effect, power_law


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.05, 1.2, 2.0])
def test_ids_follow_the_power_law(alpha: float) -> None:
    rows = 1000
    ids = power_law(np.random.default_rng(0).random(400_000), rows, alpha)
    assert 0 <= ids.min() <= ids.max() < rows
    assert power_law(np.array([0.0, np.nextafter(1, 0)]), rows, alpha).tolist() == [0, rows - 1]
    # The weight of id i is the integral of x^-alpha from i + 1 to i + 2.
    edges = np.arange(1, rows + 2, dtype=np.float64)
    integral = np.log(edges) if alpha == 1.0 else edges ** (1 - alpha) / (1 - alpha)
    weights = np.diff(integral)
    expected = np.cumsum(weights / weights.sum())
    found = np.cumsum(np.bincount(ids, minlength=rows) / len(ids))
    assert np.abs(found - expected).max() < 0.004  # Kolmogorov and Smirnov: 1 in 10^5 at this many draws


SETS = [
    Clicks((50, 7, 1000), 64, 3, dense=4, seed=5),
    Clicks((50, 7), 64, 3, dense=0, hot=6, seed=5),
    Pictures((3, 8, 8), 10, 16, 3, seed=5),
    Tokens(30, 12, 16, 3, seed=5),
]


@pytest.mark.parametrize("data", SETS, ids=lambda data: type(data).__name__)
def test_batches_are_the_same_whenever_they_are_drawn(data: Clicks | Pictures | Tokens) -> None:
    first, second = list(data), list(data)
    assert len(first) == len(data) == 3
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert not torch.equal(first[0][0], first[1][0])


def test_a_batch_of_clicks_is_drawn_alone() -> None:
    data = SETS[0]
    assert isinstance(data, Clicks)
    assert all(torch.equal(a, b) for a, b in zip(data[2], list(data)[2], strict=True))
    with pytest.raises(IndexError):
        _ = data[3]


def test_clicks_have_the_shapes_they_are_said_to_have() -> None:
    ids, dense, label = next(iter(SETS[0]))
    assert (ids.shape, dense.shape, label.shape) == ((64, 3), (64, 4), (64,))
    assert (ids.dtype, dense.dtype, label.dtype) == (torch.int64, torch.float32, torch.float32)
    assert bool((ids < torch.tensor([50, 7, 1000])).all())
    assert next(iter(SETS[1]))[0].shape == (64, 2, 6)


def test_effects_differ_by_id_by_field_and_by_seed() -> None:
    ids = np.arange(100_000, dtype=np.uint64)
    effects = {(field, seed): hidden_effect(ids, np.uint64(field), seed) for field in (0, 1) for seed in (0, 1)}
    for one in effects.values():
        assert one.mean() == pytest.approx(0, abs=0.02)
        assert one.std() == pytest.approx(1, abs=0.02)
    for key, one in effects.items():
        assert all(abs(np.corrcoef(one, other)[0, 1]) < 0.02 for name, other in effects.items() if name != key)


def test_without_strength_labels_are_chance() -> None:
    _, _, label = next(iter(Clicks((100,), 100_000, 1, strength=0.0)))
    assert float(label.mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clicks((), 2, 1), "there are 0 cardinalities"),
        (lambda: Clicks((4, 0), 2, 1), "a cardinality cannot be 0"),
        (lambda: Clicks((4,), 0, 1), "batch_size cannot be 0"),
        (lambda: Clicks((4,), 2, 1, hot=0), "hot cannot be 0"),
        (lambda: Clicks((4,), 2, 1, alpha=-1.0), r"alpha cannot be -1\.0"),
        (lambda: Clicks((4,), 2, 1, seed=-1), "seed cannot be -1"),
        (lambda: Pictures((1, 0), 2, 2, 1), "a size of shape cannot be 0"),
        (lambda: Pictures((1, 8), 0, 2, 1), "classes cannot be 0"),
        (lambda: Tokens(0, 4, 2, 1), "vocabulary cannot be 0"),
        (lambda: Tokens(9, 4, 2, -1), "batches cannot be -1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        make()


def test_pictures_of_a_class_are_nearest_to_its_pattern() -> None:
    (images, label), (others, unseen) = list(Pictures((1, 8, 8), 5, 400, 2, noise=0.5))
    centres = torch.stack([images[label == k].mean(0) for k in range(5)]).flatten(1)
    told = torch.cdist(others.flatten(1), centres).argmin(1)
    assert float((told == unseen).float().mean()) > 0.99


def test_the_next_token_is_mostly_the_chains() -> None:
    (tokens, following), (more, after) = list(Tokens(20, 40, 200, 2, order=0.8))
    assert torch.equal(tokens[:, 1:], following[:, :-1])
    counts = torch.zeros(20, 20).index_put_((tokens.flatten(), following.flatten()), torch.tensor(1.0), accumulate=True)
    assert float((counts.argmax(1)[more] == after).float().mean()) == pytest.approx(0.8 + 0.2 / 20, abs=0.02)
