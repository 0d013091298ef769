"""What ``torch.compile(…, backend="hetpart", options={…})`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hetpart.errors import InvalidOptionError
from hetpart.kinds import require_kinds

if TYPE_CHECKING:
    from hetpart.partitioned import PartitionedModel

_PLANNING = (
    "access", "budget", "colocate", "hardware", "headroom", "host_budget", "max_partitions", "min_gain", "overlap",
    "pin", "placement", "stream", "threads", "time_limit", "trip_count",
)  # fmt: skip
"""They mean what they mean in ``hetpart.partition``."""
_RUNNING = ("emulate", "emulate_link")
"""They mean what they mean in ``hetpart.Session``."""
_ON_PLAN = "on_plan"
_KNOWN = sorted((*_PLANNING, *_RUNNING, _ON_PLAN))


@dataclass(frozen=True, slots=True, eq=False)
class CompileOptions:
    """The options of one call of ``torch.compile``, checked."""

    planning: Mapping[str, Any]
    running: Mapping[str, Any]
    on_plan: Callable[[PartitionedModel], object] | None = None
    """Called with every plan that is made."""

    @classmethod
    def of(cls, options: Mapping[str, Any] | None, mode: str | None) -> CompileOptions:
        """The options as they were given.

        Raises:
            InvalidOptionError: one is unknown or of the wrong kind, or there is a ``mode``.
        """
        if mode is not None:
            raise InvalidOptionError(
                f"torch.compile's mode {mode!r} says nothing to the backend hetpart",
                hint=f"leave it out; options={{…}} takes {', '.join(_KNOWN)}",
            )
        given = dict(options or {})
        for name in given:
            _require_known(name)
        require_kinds(given)
        on_plan = given.get(_ON_PLAN)
        if on_plan is not None and not callable(on_plan):
            raise InvalidOptionError(f"on_plan cannot be {on_plan!r}", hint="give a function that takes a plan")
        planning = {name: given[name] for name in _PLANNING if name in given}
        return cls(planning, {name: given[name] for name in _RUNNING if name in given}, on_plan)


def _require_known(name: object) -> None:
    if name in _KNOWN:
        return
    near = get_close_matches(str(name), _KNOWN, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise InvalidOptionError(
        f"the torch.compile backend hetpart has no option {name!r}", hint=f"{meant}its options are {', '.join(_KNOWN)}"
    )
