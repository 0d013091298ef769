"""How much memory this process has in use, and what it has mapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_STATM, _MAPS = Path("/proc/self/statm"), Path("/proc/self/maps")


def resident_bytes() -> int | None:
    """Bytes in memory, pages of mapped files included; ``None`` where the system does not tell."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes of a file."""

    path: str
    offset: int
    nbytes: int

    @property
    def behind(self) -> int:
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class MappedSpan:
    """A part of a file that is mapped, and where."""

    part: FilePart
    address: int

    def holds(self, address: int) -> bool:
        """Whether ``address`` lies in it."""
        return 0 <= address - self.address < self.part.nbytes

    def covers(self, part: FilePart) -> bool:
        """Whether all of ``part`` is in it."""
        own = self.part
        return own.path == part.path and own.offset <= part.offset and part.behind <= own.behind

    def joined(self, after: MappedSpan) -> MappedSpan | None:
        """Both as one, where ``after`` follows in memory and in the file."""
        one, two = self.part, after.part
        if (one.path, one.behind, self.address + one.nbytes) != (two.path, two.offset, after.address):
            return None
        return MappedSpan(FilePart(one.path, one.offset, one.nbytes + two.nbytes), self.address)


def mapped_spans() -> list[MappedSpan]:
    """What this process has mapped of files, in one piece what was mapped at once; nothing where no system tells."""
    found: list[MappedSpan] = []
    for span in _read_spans():
        joined = found[-1].joined(span) if found else None
        if joined is None:
            found.append(span)
        else:
            found[-1] = joined
    return found


def _read_spans() -> Iterator[MappedSpan]:
    """In the order of their addresses: what is advised in parts is listed in parts."""
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        places, _, offset, _, _, *path = line.split(maxsplit=5)
        first, behind = (int(place, 16) for place in places.split("-"))
        if path:
            yield MappedSpan(FilePart(path[0], int(offset, 16), behind - first), first)
