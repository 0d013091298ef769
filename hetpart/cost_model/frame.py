"""Rows as a table of pandas, where that is installed."""

# pandas has no types of its own:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetpart.cost_model.breakdown import Row
from hetpart.errors import HetpartError


def frame_of(rows: Iterable[Row]) -> Any:
    """A ``pandas.DataFrame`` with a line for each row and a column for each figure.

    Raises:
        HetpartError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise HetpartError("pandas is not installed, so there are no frames", hint="pip install pandas") from error
    return pandas.DataFrame([row.flat() for row in rows])
