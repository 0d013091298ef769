# pyright: reportUnknownMemberType=false
"""Criteo's click logs: lines of a label, 13 counts and 26 hashed categories, parted by tabs.

Any count or category may be missing.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hetpart.errors import HetpartError
from hetpart.training.limits import path_of, require_cardinalities, require_count

Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]

COUNTS, CATEGORIES = 13, 26
HASHES, COLUMNS = 1 + COUNTS, 1 + COUNTS + CATEGORIES
KAGGLE_CARDINALITIES = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
"""Distinct categories of the Kaggle set, a column each, as facebookresearch/dlrm counts them."""
_CHUNK = 1 << 24
_TAB, _NEWLINE, _MINUS, _ZERO = b"\t\n-0"
_BLANK = (b"\r\n", b"\n")
_SHOWN = 20
_HINT = "a line is a label, 0 or 1, 13 numbers and 26 hashes, parted by tabs; all but the label may be missing"
_HEX = np.full(256, -1, np.int64)
_HEX[list(b"0123456789abcdef")] = range(16)
_HEX[list(b"ABCDEF")] = range(10, 16)


@dataclass(frozen=True, slots=True)
class Criteo:
    """Batches of a file, plain or gzipped: (ids int64 [B, 26], dense float32 [B, 13], label float32 [B]).

    An id is 0 where the category is missing, else 1 + its hash modulo (rows of the table − 1). A count x becomes
    ln(1 + x), and 0 where it is missing or below 0.
    """

    path: Path | str
    batch_size: int
    cardinalities: Sequence[int] = KAGGLE_CARDINALITIES
    """Rows of each column's table."""
    drop_last: bool = True

    def __post_init__(self) -> None:
        require_count("batch_size", self.batch_size)
        require_cardinalities(self.cardinalities, 2, CATEGORIES)
        path_of("path", self.path)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        rest = np.empty((0, COLUMNS), np.int64)
        for rows in _rows(Path(self.path)):
            rest = np.concatenate((rest, rows)) if len(rest) else rows
            whole = len(rest) - len(rest) % self.batch_size
            yield from (
                self._batch(rest[start : start + self.batch_size]) for start in range(0, whole, self.batch_size)
            )
            rest = rest[whole:]
        if len(rest) and not self.drop_last:
            yield self._batch(rest)

    def _batch(self, rows: Integers) -> tuple[Tensor, Tensor, Tensor]:
        hashes, counts = rows[:, HASHES:], rows[:, 1:HASHES]
        ids = np.where(hashes < 0, 0, 1 + hashes % (np.array(self.cardinalities) - 1))
        dense = np.log1p(np.maximum(counts, 0)).astype(np.float32)
        return torch.from_numpy(ids), torch.from_numpy(dense), torch.from_numpy(rows[:, 0].astype(np.float32))


def _rows(path: Path) -> Iterator[Integers]:
    """Labels, counts and hashes, −1 where missing, of some lines at a time."""
    try:
        with cast("BinaryIO", gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")) as file:
            yield from _parsed(path, file)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise HetpartError(
            f"{path} cannot be read: {why}",
            hint="give a file of Criteo's, plain or .gz",
        ) from error


def _parsed(path: Path, file: BinaryIO) -> Iterator[Integers]:
    rest, line, begun = b"", 1, False
    while chunk := file.read(_CHUNK):
        text, begun = rest + chunk, True
        end = text.rfind(b"\n") + 1
        end -= next(
            (len(blank) for blank in _BLANK if text.endswith(b"\n" + blank)), 0
        )  # what ends a file may be blank
        rest = text[end:]
        if end:
            rows = parse(text[:end], path, line)
            yield rows
            line += len(rows)
    if rest and rest not in _BLANK:
        yield parse(rest + b"\n", path, line)
    if not begun:
        raise HetpartError(f"{path} is empty", hint=_HINT)


def parse(text: bytes, path: Path, line: int) -> Integers:
    """Whole lines as int64 [lines, 40]: numbers and hashes, −1 where there is none.

    Lines end as Unix or Windows ends them. ``line`` is the number of the first one in ``path``.

    Raises:
        HetpartError: a line does not have 40 columns, a label is neither 0 nor 1, or a column holds something else.
    """
    text = text.replace(b"\r\n", b"\n")
    raw = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((raw == _TAB) | (raw == _NEWLINE))
    lines = np.count_nonzero(raw == _NEWLINE)
    if len(ends) != lines * COLUMNS or not np.all(raw[ends[COLUMNS - 1 :: COLUMNS]] == _NEWLINE):
        rows = enumerate(text.split(b"\n"), line)
        odd, found = next((at, count) for at, row in rows if (count := row.count(b"\t") + 1) != COLUMNS)
        raise HetpartError(f"{path}, line {odd}: it does not have {COLUMNS} columns, but {found}", hint=_HINT)
    starts = np.concatenate(([0], ends[:-1] + 1)).reshape(lines, COLUMNS)
    fields = _Fields(raw, starts, ends.reshape(lines, COLUMNS) - starts, path, line)
    return np.concatenate((_numbers(fields.part(0, HASHES)), _digits(fields.part(HASHES, COLUMNS), 16)), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """Where some columns of all lines lie in their text."""

    raw: Bytes
    starts: Integers
    lengths: Integers
    path: Path
    line: int
    """The number of the first line in ``path``."""
    column: int = 0

    def part(self, begin: int, end: int) -> _Fields:
        """These columns alone."""
        starts, lengths = self.starts[:, begin:end], self.lengths[:, begin:end]
        return replace(self, starts=starts, lengths=lengths, column=begin)

    def refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        """Raise an error that shows the first field which is ``wrong``, if any is."""
        if not wrong.any():
            return
        row, column = (int(at) for at in np.argwhere(wrong)[0])
        start, length = int(self.starts[row, column]), int(self.lengths[row, column])
        held = self.raw[start : start + min(length, _SHOWN)].tobytes().decode("ascii", "backslashreplace")
        raise HetpartError(
            f"{self.path}, line {self.line + row}: column {self.column + column + 1} holds {held!r}, {why}", hint=_HINT
        )


def _numbers(fields: _Fields) -> Integers:
    """A label, 0 or 1, and counts. A minus alone would be the 1 that negates a missing one."""
    raw, starts, lengths = fields.raw, fields.starts, fields.lengths
    negative = (lengths > 0) & (raw[starts] == _MINUS)
    fields.refuse(negative & (lengths == 1), "which is no number of base 10")
    values = _digits(fields, 10, skipped=negative)
    values = np.where(negative, -values, values)
    label = values[:, :1]
    fields.refuse((label != 0) & (label != 1), "which is no label, 0 or 1")
    return values


def _digits(fields: _Fields, base: int, skipped: NDArray[np.bool_] | None = None) -> Integers:
    """Numbers of up to eight hexadecimal or ten decimal digits, digit by digit over all fields at once."""
    places = 8 if base == 16 else 10
    skip = np.zeros((), np.bool_) if skipped is None else skipped
    starts, lengths = fields.starts + skip, fields.lengths - skip
    fields.refuse(lengths > places, f"more than {places} digits")
    values = np.where(lengths > 0, 0, -1)
    for place in range(int(lengths.max(initial=0))):
        inside = place < lengths
        digits = _HEX[fields.raw[np.where(inside, starts + place, 0)]]
        fields.refuse(inside & ((digits < 0) | (digits >= base)), f"which is no number of base {base}")
        values = np.where(inside, values * base + digits, values)
    return values
