"""Partitions that are sessions of ONNX Runtime: all but those that PyTorch runs, which hold no session's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.cut import Cut


def is_session(problem: PlacementProblem, cut: Cut) -> NDArray[np.bool_]:
    """(P,) Of every partition."""
    found = np.zeros(cut.partitions, np.bool_)
    found[cut.partition[problem.in_sessions]] = True
    return found


def sessions_on(problem: PlacementProblem, cut: Cut) -> NDArray[np.int64]:
    """(D,) How many every device has."""
    return np.bincount(cut.devices[is_session(problem, cut)], minlength=len(problem.devices))


def most_sessions(problem: PlacementProblem) -> int:
    """More than a placement can have on the accelerator, were there room for all."""
    return int((problem.legal()[ACCELERATOR] & problem.in_sessions).sum())


def most_others(problem: PlacementProblem) -> int:
    """No placement has more partitions on the accelerator that are no sessions."""
    return int((problem.legal()[ACCELERATOR] & ~problem.in_sessions).sum())
