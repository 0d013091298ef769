from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from hetpart.errors import InvalidFeedError
from hetpart.training.fitting import Evaluation, accuracy, auc, fit


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5])
def test_one_column_is_a_score_of_each_sample(threshold: float) -> None:
    drawn = np.random.default_rng(0)
    scores, labels = drawn.normal(size=(40, 1)), drawn.integers(0, 2, 40)
    right = sum((score > threshold) == bool(label) for [score], label in zip(scores.tolist(), labels, strict=True))
    tell = partial(accuracy, threshold=threshold)
    assert tell(scores, labels) == tell(scores, labels[:, None]) == right / 40
    assert tell(np.hstack([-scores, scores]), labels) == accuracy(scores, labels, 0.0)
    evaluation = Evaluation([0, 1], lambda half: (scores[half::2], labels[half::2]), {"accuracy": tell})
    told = fit(lambda _: 0.5, [1], evaluation=evaluation, progress=False).evaluations[0].metrics
    assert told == {"accuracy": right / 40}


@pytest.mark.parametrize("kind", [torch.tensor, list, np.array])
def test_scores_and_labels_are_tensors_lists_or_arrays(kind: Callable[[list[float]], Any]) -> None:
    """Of the four pairs of a positive and a negative three are in order."""
    scores, labels = kind([0.1, 0.7, 0.4, 0.9]), kind([0.0, 0.0, 1.0, 1.0])
    assert auc(scores, labels) == 0.75
    assert accuracy(scores, labels) == 0.5
    assert accuracy(torch.tensor([0.9, 0.1], requires_grad=True), torch.tensor([1, 0])) == 1.0


def test_labels_of_two_classes_are_0_and_1() -> None:
    with pytest.raises(InvalidFeedError, match="labels such as -1"):
        accuracy(np.array([0.1, 0.9]), np.array([-1, 1]))
    assert accuracy(np.eye(3), np.array([0, 1, 1])) == pytest.approx(2 / 3)
