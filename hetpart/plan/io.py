"""``plan.json``: a plan as bytes and back. Equal plans give equal bytes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TypeVar

import msgspec

from hetpart.errors import InvalidBundleError
from hetpart.plan.model import PLAN_SCHEMA, PLAN_VERSION, Plan
from hetpart.plan.verify import violations

PLAN_FILE = "plan.json"
_REPARTITION = "run `hetpart partition` on the model again"
_MODELS = (".onnx", ".pt2")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_T = TypeVar("_T")


class _Header(msgspec.Struct):
    schema: str = ""
    version: int = 0


def write_plan(plan: Plan) -> bytes:
    """``plan`` as JSON with sorted keys, two spaces of indentation and a newline at the end."""
    assert not (broken := list(violations(plan))), broken
    data = msgspec.json.encode(plan, order="sorted")
    # JSON has no infinity: msgspec would write null for it and lose the number.
    assert msgspec.json.decode(data, type=Plan) == plan, "the plan holds a number that JSON cannot"
    return msgspec.json.format(data, indent=2) + b"\n"


def read_plan(data: bytes, where: str) -> Plan:
    """The plan in ``data``, which came from ``where``. Fields of a newer revision are passed over.

    Raises:
        InvalidBundleError: it is not JSON, not a plan, a plan of another version, or contradicts itself.
    """
    header = _decode(data, _Header, where)
    if header.schema != PLAN_SCHEMA:
        raise InvalidBundleError(f"{where} is not a plan: its schema is {header.schema!r}", hint=_REPARTITION)
    if header.version != PLAN_VERSION:
        hint = "upgrade hetpart" if header.version > PLAN_VERSION else _REPARTITION
        raise InvalidBundleError(
            f"{where} is a plan of version {header.version}; this hetpart reads version {PLAN_VERSION}", hint=hint
        )
    plan = _decode(data, Plan, where)
    for broken in violations(plan):
        raise InvalidBundleError(f"{where} contradicts itself: {broken}", hint=_REPARTITION)
    return plan


def is_plan(data: bytes) -> bool:
    """Whether ``data`` calls itself a plan, of whichever version."""
    try:
        return _decode(data, _Header, "").schema == PLAN_SCHEMA
    except InvalidBundleError:
        return False


def load_plan(path: str | PathLike[str]) -> Plan:
    """The plan of the bundle at ``path``, or in the plan file at ``path``.

    Raises:
        InvalidBundleError: there is none, or it cannot be read.
    """
    path = Path(path)
    file = path / PLAN_FILE if path.is_dir() else path
    if path.is_file() and path.suffix in _MODELS:
        raise InvalidBundleError(
            f"{str(path)!r} is a model, and no bundle yet",
            hint=f"make one with `hetpart partition {path}`, and give that",
        )
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        what = f"is not a bundle: it has no {PLAN_FILE}" if path.is_dir() else "does not exist"
        raise InvalidBundleError(f"{str(path)!r} {what}", hint="make a bundle with `hetpart partition MODEL`") from None
    except OSError as error:
        raise InvalidBundleError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    return read_plan(data, str(file))


def _decode(data: bytes, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidBundleError(f"{where} is not a plan: {error}", hint=_REPARTITION) from None
    except _UNREADABLE as error:
        raise InvalidBundleError(f"{where} is damaged: {error}", hint=_REPARTITION) from None
