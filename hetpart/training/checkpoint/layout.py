"""Where checkpoints lie in a folder, and which of them are whole.

``step-00000050/part-00001-of-00002.safetensors``: a checkpoint is whole when all its parts are there, and gets its
name only then. Until then it is ``step-00000050.incomplete``, or ``step-00000050.merged.incomplete`` where it is
another form of one; one about to be replaced is ``step-00000050.replaced``, and one about to be deleted is
``step-00000050.removed``, which is none any more.
``step-00000050/order`` says the how manyth it is of those that were written to the folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from hetpart.errors import InvalidOptionError

INCOMPLETE, REPLACED, REMOVED = ".incomplete", ".replaced", ".removed"
MERGED = f".merged{INCOMPLETE}"
ORDER = "order"
_FOLDER = re.compile(r"step-(\d{8,})(\.replaced)?")
_PASSING = re.compile(r"step-(\d{8,})(?:\.merged|\.replaced)?\.(?:incomplete|replaced|removed)")
_PART = re.compile(r"part-(\d{5})-of-(\d{5})\.safetensors")


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a checkpoint, counted from 1."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InvalidOptionError(f"part {self.index} of {self.count} is none", hint="parts are counted from 1")

    @property
    def file_name(self) -> str:
        return f"part-{self.index:05d}-of-{self.count:05d}.safetensors"


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole checkpoint on disk."""

    step: int
    folder: Path
    files: tuple[Path, ...]

    @property
    def written(self) -> tuple[int, int]:
        """Orders checkpoints by when they were written, wherever they were copied to since, then by step."""
        return order_of(self.folder), self.step


def order_of(folder: Path) -> int:
    """The how manyth a checkpoint is of those that were written; 0 where it does not say."""
    try:
        return int((folder / ORDER).read_text())
    except (OSError, ValueError):
        return 0


def step_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint of ``step`` lies once it is whole."""
    return folder / f"step-{step:08d}"


def parts_in(folder: Path) -> dict[Part, Path]:
    """The parts that lie in one checkpoint's folder."""
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:  # another process has removed it since
        return {}
    matches = ((_PART.fullmatch(file.name), file) for file in files)
    return {Part(int(match[1]), int(match[2])): file for match, file in matches if match}


def is_whole(parts: dict[Part, Path]) -> bool:
    """Whether these are all the parts of one checkpoint."""
    counts = {part.count for part in parts}
    return len(counts) == 1 and len(parts) == counts.pop()


def stored(folder: Path) -> list[Stored]:
    """Every whole checkpoint in ``folder``, the one written last at the end."""
    found: dict[int, Stored] = {}
    for home in sorted(folder.glob("step-*"), reverse=True):  # a checkpoint comes after what it is about to replace
        match = _FOLDER.fullmatch(home.name)
        parts = parts_in(home) if match and home.is_dir() else {}
        if match and is_whole(parts):
            found[int(match[1])] = Stored(int(match[1]), home, tuple(parts.values()))
    return sorted(found.values(), key=lambda one: one.written)


def passing(folder: Path) -> dict[Path, int]:
    """What lies in ``folder`` beside whole checkpoints, each with its step: being written, replaced or removed."""
    matches = ((_PASSING.fullmatch(home.name), home) for home in folder.glob("step-*.*"))
    return {home: int(match[1]) for match, home in matches if match and home.is_dir()}


def partial(folder: Path, step: int | None = None) -> list[str]:
    """What is there of checkpoints in ``folder`` that are not whole, of ``step`` or of any."""
    homes = sorted(folder.glob("step-*" if step is None else f"{step_folder(folder, step).name}*"))
    found = [(home.name, parts_in(home)) for home in homes if home.is_dir() and home.suffix != REMOVED]
    return [f"{name} has {_parts_told(parts)}" for name, parts in found if not is_whole(parts)]


def _parts_told(parts: Collection[Part]) -> str:
    if not parts:
        return "no part"
    count = max(part.count for part in parts)
    missing = sorted({*range(1, count + 1)} - {part.index for part in parts if part.count == count})
    return f"{count - len(missing)} of {count} parts, and lacks {', '.join(map(str, missing[:8]))}"
