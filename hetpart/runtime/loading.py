# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A bundle's sessions, opened: one of every partition, or one of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetpart.runtime.lent import lent_weights
from hetpart.runtime.mapped import mapped_weights
from hetpart.runtime.native import native_bundle, open_native
from hetpart.runtime.sessions import open_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetpart.plan.bundle import Bundle
    from hetpart.runtime.sessions import PartSession, SessionSettings


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a session runs."""

    bundle: Bundle
    """In native mode one of a single partition."""
    sessions: Sequence[PartSession]
    weights: Sequence[Mapping[str, Any]]
    """What the sessions read where it lies: it must outlive them."""


MODES = ("partitions", "native", "own-budget")
"""How a plan is run: a session a partition; one of all, by annotations; one that fills the budget by its own rule."""


def load(bundle: Bundle, settings: SessionSettings, *, mode: str, progress: Callable[[str], None] | None) -> Loaded:
    """Open the sessions of ``bundle``.

    Raises:
        HetpartError: a device does not answer, or ONNX Runtime refuses a partition.
    """
    if mode != MODES[0]:
        one = native_bundle(bundle)
        return Loaded(one, open_native(bundle, one, settings, own_rule=mode == MODES[2]), ())
    weights, lent = mapped_weights(bundle, emulate=settings.emulate, others=settings.providers), lent_weights(bundle)
    sessions = open_sessions(bundle, settings, weights, lent, progress)
    return Loaded(bundle, sessions, (*weights, lent) if lent else weights)
