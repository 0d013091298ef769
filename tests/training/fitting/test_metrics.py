from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from hetpart.training.fitting import Evaluation, accuracy, fit


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
