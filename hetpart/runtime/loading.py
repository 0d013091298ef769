# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A bundle's sessions, opened: one of every partition, or one of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from hetpart.errors import InvalidOptionError
from hetpart.kinds import require_kinds
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
_VERIFIED = ("sampled", "full")
"""How much of the weight files is hashed."""


def path_of(bundle: object) -> Path:
    """Where a bundle is.

    Raises:
        InvalidOptionError: that is no path.
    """
    if not isinstance(bundle, str | PathLike) or not str(bundle):
        raise InvalidOptionError(
            f"a session opens a bundle, not {shortened(bundle)}",
            hint="give the path of one, or the bundle() of what hetpart.partition gives",
        )
    return Path(bundle)


def require_known(mode: str, verify: str, *, threads: int | None, **options: object) -> None:
    """A session can be opened so.

    Raises:
        InvalidOptionError: there is no such mode or way to verify, an option is of the wrong kind, a number of threads
            below 0, or lanes or a link are asked for where one session runs the plan.
    """
    for option, given, known in (("mode", mode, MODES), ("verify", verify, _VERIFIED)):
        if given not in known:
            raise InvalidOptionError(f"{option}={given!r} is none", hint=f"it is one of {', '.join(map(repr, known))}")
    require_kinds({"threads": threads, **options})
    if threads is not None and threads < 0:
        raise InvalidOptionError(
            f"threads={threads} is none", hint="give a number from 0, which leaves it to the machine"
        )
    if mode != MODES[0]:
        _require_no_lanes(mode, options)


def _require_no_lanes(mode: str, options: Mapping[str, object]) -> None:
    """One session has neither lanes nor links."""
    option = next((name for name in ("overlap", "emulate_link") if options[name] not in (None, False)), None)
    if option is not None:
        raise InvalidOptionError(
            f"{option} is asked for, and with mode={mode!r} one session runs the plan, without lanes or links",
            hint=f"leave out {option}, or the mode (--native)",
        )


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
