"""What the arguments of a step may be given where nobody gives them anything: what they are given before any update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hetpart.training.norms import COLLECTED
from hetpart.training.optimizers import RowOptimizer
from hetpart.training.optimizers.protocol import STATE
from hetpart.training.writer import LOSS_SCALE, PROGRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetpart.training.optimizers import Assignment
    from hetpart.training.rules import Rules
    from hetpart.training.updates import StateName


def examples_of(
    states: Sequence[StateName], assigned: Mapping[str, Assignment], rules: Rules
) -> dict[str, tuple[float, ...]]:
    """By argument, a number for all elements or one for each; none of parameters, buffers and the batch.

    Progress is that of the call that makes the first update. Where tables collect what several calls look up it is that
    of the first of these: what the others did is not made up, and bags would lie between any bounds.
    """
    calls = rules.accumulate
    by_rows = any(isinstance(found.optimizer, RowOptimizer) for found in assigned.values())
    begins = calls > 1 and by_rows
    found: dict[str, tuple[float, ...]] = {
        PROGRESS: (1.0, 1.0, 0.0, 0.0) if begins else (1.0, 1.0, 1.0 / calls, calls - 1.0)
    }
    if rules.scaled:
        found[LOSS_SCALE] = (1.0,)
    for state in states:
        if state.name.startswith(COLLECTED):
            found[state.given] = (0.0,)
        elif state.name.startswith(STATE) and not state.rounds:
            kept, _, parameter = state.name.removeprefix(STATE).partition("/")
            found[state.given] = (assigned[parameter].optimizer.init(torch.zeros(1, 1))[kept].item(),)
    return found
