"""Rows as a table of pandas, where that is installed."""

# pandas has no types of its own:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hetpart.errors import HetpartError


def frame_of(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A ``pandas.DataFrame`` with a line for each row and a column for each figure.

    Raises:
        HetpartError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise HetpartError(
            "pandas is not installed, so there are no frames", hint="pip install 'hetpart[frame]'"
        ) from error
    return pandas.DataFrame(list(rows))
