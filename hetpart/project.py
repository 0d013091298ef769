"""The settings of the project that a folder belongs to: a table of a TOML file, not yet understood."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hetpart.errors import InvalidOptionError

OWN_FILE, SHARED_FILE = "hetpart.toml", "pyproject.toml"
SHARED_TABLE = "tool.hetpart"
_NAME = b"hetpart"


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """Where settings stand, and what they say."""

    path: Path
    name: str
    """Of the table; empty where it is all of the file."""
    content: Any

    @property
    def where(self) -> str:
        """As a user would call it."""
        return f"{_shown(self.path)} [{self.name}]" if self.name else _shown(self.path)


def find_settings(folder: Path) -> SettingsTable | None:
    """Those of ``folder``, or of the nearest folder above that has some; ``hetpart.toml`` goes before the other.

    Raises:
        InvalidOptionError: a file is no TOML.
    """
    for place in (folder, *folder.parents):
        own, shared = place / OWN_FILE, place / SHARED_FILE
        if os.path.isfile(own):
            return SettingsTable(own, "", _parsed(own, own.read_bytes()))
        content = _shared(shared) if os.path.isfile(shared) else None
        if content is not None:
            return SettingsTable(shared, SHARED_TABLE, content)
    return None


def _shared(path: Path) -> object:
    """The content of the table; ``None`` where the file has none."""
    raw = path.read_bytes()
    tool = _parsed(path, raw).get("tool") if _NAME in raw else None
    return cast("dict[str, object]", tool).get("hetpart") if isinstance(tool, dict) else None


def _parsed(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidOptionError(f"{_shown(path)} is not TOML: {error}", hint="mend the file or remove it") from error


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
