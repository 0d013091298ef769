"""What every export is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetpart.errors import InvalidBundleError
from hetpart.plan.edges import OpGraph
from hetpart.plan.model import Decision, Plan

_FILLS = ("#cfe3f3", "#fbdccb", "#cdeade", "#f3dcea")
"""Pale shades of what most colour-blind people tell apart; black text is readable on all."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A plan, with what its bundle's models say beside it."""

    plan: Plan
    graph: OpGraph | None = None
    """``None`` where there is a plan file alone."""

    @property
    def ops(self) -> OpGraph:
        """The graph of ops.

        Raises:
            InvalidBundleError: there is none.
        """
        if self.graph is None:
            raise InvalidBundleError(
                "a plan file does not say which ops are connected", hint="name the bundle, the folder it lies in"
            )
        return self.graph

    def fill(self, device: str) -> str:
        """A background for what is on ``device``."""
        names = [use.device for use in self.plan.devices]
        return _FILLS[names.index(device) % len(_FILLS)]


def own_seconds(decision: Decision) -> float:
    """Predicted seconds of the op on the device it was given."""
    return decision.seconds.get(decision.device, 0.0)


def decisions_by_op(plan: Plan) -> Mapping[str, Decision]:
    """Why each op is where it is, by its name."""
    return {decision.op: decision for decision in plan.decisions}
