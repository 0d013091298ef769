"""Curves that ``hetpart sweep --json`` printed, read back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hetpart.errors import InvalidOptionError
from hetpart.plan.curves import Curve, Sweep
from hetpart.plan.model import Plan

SCHEMA, VERSION = "hetpart.sweep", 1
_HINT = "write one with `hetpart sweep MODEL --json > FILE`"


class _Header(msgspec.Struct):
    schema: str = ""
    version: int = 0


def read_curve(path: Path, plan: Plan) -> Curve:
    """The curve in the sweep at ``path`` of the machine that ``plan`` is for.

    Raises:
        InvalidOptionError: the file is not there, is no sweep, or one of another model or machine.
    """
    try:
        content = path.read_bytes()
        header = msgspec.json.decode(content, type=_Header)
        swept = msgspec.json.decode(content, type=Sweep)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise _refused(path, f"is no sweep: {error}") from error
    if (header.schema, header.version) != (SCHEMA, VERSION):
        raise _refused(path, f"is a {header.schema!r} of version {header.version}")
    if (swept.ops, swept.weight_bytes) != (plan.model.ops, plan.model.weight_bytes):
        raise _refused(path, f"is of another model: {swept.ops:,} ops, and the plan has {plan.model.ops:,}")
    own = next((curve for curve in swept.curves if curve.machine == plan.machine.name), None)
    if own is None:
        raise _refused(path, f"is of other machines than {plan.machine.name}")
    return own


def _refused(path: Path, why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the sweep {str(path)!r} {why}", hint=_HINT)
