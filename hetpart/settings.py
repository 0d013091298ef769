"""What a project's settings may say: every key has the name of the option whose default it is."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal

import msgspec

from hetpart.errors import InvalidOptionError
from hetpart.project import SettingsTable

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*?)`(?: - at `\$\.(?P<table>.*)`)?", re.DOTALL)

Texts = str | list[str]
Numbers = str | list[str] | dict[str, str | int]
"""``batch=8``, several such texts, or a table."""
Names = str | list[str] | dict[str, str]


class LintSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """``[tool.hetpart.lint]``: what ``hetpart lint`` takes where its command line does not say otherwise."""

    select: Texts | None = None
    ignore: Texts | None = None
    extend_select: Texts | None = None
    format: Literal["text", "json", "github", "sarif", "markdown", "junit"] | None = None
    fail_on: Literal["error", "warning", "note"] | None = None
    baseline: str | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """``[tool.hetpart]``: the same for every command that has such an option."""

    budget: str | int | list[str] | dict[str, str | int] | None = None
    hardware: str | None = None
    placement: str | None = None
    shape: Numbers | None = None
    pin: Names | None = None
    colocate: Texts | None = None
    host_budget: str | int | None = None
    headroom: str | int | None = None
    max_partitions: int | None = None
    min_gain: str | None = None
    io: Names | None = None
    state: Names | None = None
    stream: bool | None = None
    time_limit: float | None = None
    threads: int | None = None
    trip_count: Numbers | None = None
    access: str | None = None
    emulate: bool | None = None
    verify: Literal["sampled", "full"] | None = None
    lint: LintSettings = LintSettings()


def understood(table: SettingsTable) -> Settings:
    """What ``table`` says.

    Raises:
        InvalidOptionError: a key is unknown, or its value of the wrong type.
    """
    try:
        return msgspec.convert(table.content, Settings)
    except msgspec.ValidationError as error:
        raise _refusal(table, str(error)) from error


def _refusal(table: SettingsTable, problem: str) -> InvalidOptionError:
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is None:
        return InvalidOptionError(f"{table.where}: {problem.replace('`$.', '`')}", hint="docs/lint.md has an example")
    inner = unknown["table"]
    keys = [field.encode_name for field in msgspec.structs.fields(LintSettings if inner else Settings)]
    near = get_close_matches(unknown["key"], keys, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    place = f"{table.where}, table {inner!r}," if inner else table.where
    return InvalidOptionError(
        f"{place} has an unknown key {unknown['key']!r}", hint=f"{meant}its keys are {', '.join(keys)}"
    )
