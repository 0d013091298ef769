"""The run in which every op is a partition of its own, for what no cut can be faster than."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.timeline.cut_tasks import CutTasks
from hetpart.partitioner.uses import use_devices

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.timeline.tasks import Tasks


def finest_tasks(problem: PlacementProblem, placement: Placement) -> Tasks:
    """Ops and copies as tasks of their own, sessions free: a bound on these is one on every cut of ``placement``.

    A partition does its ops one after another and hands its values on at its end, so a run of it is one of these too.
    What a session may copy for itself, and no link is busy with then, is left out.
    """
    free = replace(problem, session_seconds=np.zeros(len(problem.devices)), copy_seconds=_between(problem, placement))
    each = Cut(np.arange(problem.ops, dtype=np.int32), placement.astype(np.int8))
    return CutTasks.of(free, placement, each).tasks


def _between(problem: PlacementProblem, placement: Placement) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Seconds of every copy, none for those that a session may make for a kernel of its own."""
    uses = problem.value_uses
    maker = problem.value_producer[uses.rows]
    within = (maker != NO_OP) & (placement[maker] == placement[uses.ops])
    value, device = uses.rows[within], use_devices(uses, placement)[within]
    seconds = problem.copy_seconds.copy()
    seconds[problem.home(placement)[value], device, value] = 0.0
    return seconds
