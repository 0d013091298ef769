"""How good scores are: a metric takes all scores and all labels of an evaluation and gives one number."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from hetpart.errors import InvalidFeedError

Values: TypeAlias = NDArray[Any]
Metric: TypeAlias = Callable[[Values, Values], float]
"""(scores, labels) → number."""


def array_of(part: Any) -> Values:
    """Of a tensor, a list or an array, of a sample per row; one alone is a row too. NumPy has no bfloat16."""
    if hasattr(part, "detach"):
        part = part.detach().cpu()
        part = part.float() if str(part.dtype) == "torch.bfloat16" else part
    return np.atleast_1d(np.asarray(part))


def auc(scores: Any, labels: Any) -> float:
    """The chance that a positive has the higher score of a positive and a negative; a tie counts half.

    From the ranks that SciPy gives: Mann and Whitney's U over the number of pairs. NaN where one kind is missing.
    """
    flat, positive = array_of(scores).reshape(-1), array_of(labels).reshape(-1) > 0.5
    if flat.shape != positive.shape:
        raise InvalidFeedError(
            f"auc of {flat.size} scores and {positive.size} labels", hint="it takes one score and one label per sample"
        )
    ones = int(positive.sum())
    zeros = len(flat) - ones
    if not ones or not zeros:
        return float("nan")
    return (float(rankdata(flat)[positive].sum()) - ones * (ones + 1) / 2) / (ones * zeros)


def accuracy(scores: Any, labels: Any, threshold: float = 0.5) -> float:
    """The part of samples that are told right: by the highest of scores [N, classes], else by score > ``threshold``.

    Scores [N, 1] are one of each sample, which tells two classes apart.
    Of logits the threshold is 0: ``functools.partial(accuracy, threshold=0.0)``.
    """
    scores, labels = array_of(scores), array_of(labels)
    if scores.ndim == labels.ndim + 1 and scores.shape[-1] == 1:
        scores = scores[..., 0]
    told = scores.argmax(axis=-1) if scores.ndim > labels.ndim else (scores > threshold).astype(labels.dtype)
    if scores.ndim == labels.ndim and labels.size and not np.isin(labels, (0, 1)).all():
        raise InvalidFeedError(
            f"accuracy of one score a sample and labels such as {labels[~np.isin(labels, (0, 1))].flat[0]}",
            hint="labels of two classes are 0 and 1; of more classes a sample has a score for each",
        )
    if told.shape != labels.shape:
        raise InvalidFeedError(
            f"accuracy of scores {list(scores.shape)} and labels {list(labels.shape)}",
            hint="it takes scores of the labels' shape, or with one dimension of classes more",
        )
    return float((told == labels).mean()) if labels.size else float("nan")
