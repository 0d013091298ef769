"""Options of ``hetpart.training.compile``, read before the loss is traced: that takes as long as the model is large."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from inspect import signature
from typing import Any, cast

from hetpart.compiler import partition
from hetpart.errors import InvalidOptionError
from hetpart.kinds import require_kinds
from hetpart.request import Request, RequestOptions
from hetpart.training.limits import require_schedule, require_seed

_PLANNING = frozenset(signature(partition).parameters) - {"model"}


def require_options(planning: Mapping[str, Any], schedule: Any, seed: Any, own: Any = None) -> None:
    """See that ``planning`` are options of ``hetpart.partition`` that can be read, and a schedule and a seed are such.

    ``own`` is the function that was called, whose options are named with them where one is unknown.

    Raises:
        InvalidOptionError: one is unknown, or cannot be understood.
    """
    require_schedule(schedule)
    require_seed(seed)
    for name in sorted(planning.keys() - _PLANNING):
        raise _unknown(name, own)
    require_kinds(planning)
    asked = {name: value for name, value in planning.items() if name in RequestOptions.__annotations__}
    Request.of(planning.get("budget"), cast("RequestOptions", asked)).machine(planning.get("hardware"))


def _unknown(name: str, own: Any) -> InvalidOptionError:
    known = sorted(_PLANNING | ({*signature(own).parameters} - {"planning"} if own is not None else set[str]()))
    near = get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return InvalidOptionError(
        f"a training step has no option {name!r}", hint=f"{meant}its options are {', '.join(known)}"
    )
