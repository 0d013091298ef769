"""What a project's settings say, as the defaults of the command line's options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hetpart.project import find_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS = ("annotate", "partition", "sweep", "explain", "diff", "bench", "run", "lint")
"""Those that price a model, place one or run one: an option that one of them lacks says nothing to it."""
_REPEATABLE = frozenset(
    {"budget", "shape", "pin", "colocate", "io", "state", "trip_count", "select", "ignore", "extend_select"}
)
_TEXTS = frozenset({"host_budget", "headroom"})
_PATHS = frozenset({"access", "baseline"})
_PROFILE = ".toml"
_FORMAT = "format"


def option_defaults() -> dict[str, Any] | None:
    """Values of options by command and parameter, where the current folder, or one above it, has settings.

    Raises:
        InvalidOptionError: they cannot be read, or have a key that nobody knows.
    """
    try:
        table = find_settings(Path.cwd())
    except FileNotFoundError:  # the current folder was removed
        return None
    if table is None:
        return None
    import msgspec

    from hetpart.settings import understood

    found, folder = understood(table), table.path.parent
    shared = _values(msgspec.structs.asdict(found), folder)
    own = _values(msgspec.structs.asdict(found.lint), folder)
    return dict.fromkeys(COMMANDS, shared) | {"lint": shared | own}


def _values(given: Mapping[str, object], folder: Path) -> dict[str, object]:
    """By parameter, those that are given."""
    named = {"form" if name == _FORMAT else name: value for name, value in given.items() if name != "lint"}
    return {name: _value(name, value, folder) for name, value in named.items() if value is not None}


def _value(name: str, value: object, folder: Path) -> object:
    """As click takes it from a command line."""
    if name in _REPEATABLE:
        return _texts(value)
    if name in _PATHS or (name == "hardware" and str(value).endswith(_PROFILE)):
        return os.path.relpath(folder / str(value))
    return str(value) if name in _TEXTS else value


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(f"{key}={entry}" for key, entry in cast("dict[str, object]", value).items())
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else (str(value),)
