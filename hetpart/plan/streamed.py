"""Weights that lie on the host and are copied to an accelerator in every run, as values are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.plan.model import ResidencyState

if TYPE_CHECKING:
    from hetpart.plan.model import Plan


def streamed_weights(plan: Plan) -> tuple[str, ...]:
    """Their names, in the order of the plan's residencies."""
    return tuple(held.weight for held in plan.residencies if held.state is ResidencyState.STREAMED)
