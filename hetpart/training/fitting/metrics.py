"""How good scores are: a metric takes all scores and all labels of an evaluation and gives one number."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from numpy.typing import NDArray
from scipy.stats import rankdata

from hetpart.errors import InvalidFeedError

Values: TypeAlias = NDArray[Any]
Metric: TypeAlias = Callable[[Values, Values], float]
"""(scores, labels) → number."""


def auc(scores: Values, labels: Values) -> float:
    """The chance that a positive has the higher score of a positive and a negative; a tie counts half.

    From the ranks that SciPy gives: Mann and Whitney's U over the number of pairs. NaN where one kind is missing.
    """
    flat, positive = scores.reshape(-1), labels.reshape(-1) > 0.5
    if flat.shape != positive.shape:
        raise InvalidFeedError(
            f"auc of {flat.size} scores and {positive.size} labels", hint="it takes one score and one label per sample"
        )
    ones = int(positive.sum())
    zeros = len(flat) - ones
    if not ones or not zeros:
        return float("nan")
    return (float(rankdata(flat)[positive].sum()) - ones * (ones + 1) / 2) / (ones * zeros)


def accuracy(scores: Values, labels: Values, threshold: float = 0.5) -> float:
    """The part of samples that are told right: by the highest of scores [N, classes], else by score > ``threshold``.

    Scores [N, 1] are one of each sample, which tells two classes apart.
    Of logits the threshold is 0: ``functools.partial(accuracy, threshold=0.0)``.
    """
    if scores.ndim == labels.ndim + 1 and scores.shape[-1] == 1:
        scores = scores[..., 0]
    told = scores.argmax(axis=-1) if scores.ndim > labels.ndim else (scores > threshold).astype(labels.dtype)
    if told.shape != labels.shape:
        raise InvalidFeedError(
            f"accuracy of scores {list(scores.shape)} and labels {list(labels.shape)}",
            hint="it takes scores of the labels' shape, or with one dimension of classes more",
        )
    return float((told == labels).mean()) if labels.size else float("nan")
