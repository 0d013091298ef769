"""Whether the ids of a batch are rows of the tables that they are looked up in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hetpart.errors import InvalidFeedError


def require_rows(rows: int, ids: Tensor, name: str) -> None:
    """See that ``ids`` are rows of the table ``name``.

    Raises:
        InvalidFeedError: one is none.
    """
    if not ids.numel():
        return
    least, most = (int(bound) for bound in ids.aminmax())
    if least < 0 or most >= rows:
        raise InvalidFeedError(
            f"ids of {name!r} go from {least} to {most}, and it has {rows} rows",
            hint="rows are counted from 0: hash or clip the ids, or make the table longer",
        )


def with_rows(progress: Tensor, ids: Sequence[Tensor], rows: Sequence[int], names: str) -> Tensor:
    """``progress``, once all ``ids`` are rows of their tables, whose ``names`` are a list in JSON."""
    for some, count, name in zip(ids, rows, json.loads(names), strict=True):
        require_rows(count, some, name)
    return progress.clone()


def with_rows_like(progress: Tensor, *rest: Any) -> Tensor:
    """The form of what ``with_rows`` returns."""
    del rest
    return torch.empty_like(progress)
