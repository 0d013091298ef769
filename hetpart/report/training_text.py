"""The section of the report on a training step: its updates and lookups, and what they run beside."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from hetpart.plan.model import Plan
from hetpart.report.layout import heading, line, name, table
from hetpart.report.training_rows import COLUMNS, REMARK, TITLE, beside, rows_of


def training(plan: Plan) -> Iterator[RenderableType]:
    """Updates and lookups of every device; nothing of what is no training step."""
    if rows := rows_of(plan):
        yield heading(TITLE, REMARK)
        yield table(COLUMNS, rows)
        for device, told in beside(plan):
            yield line(name(device), f": {told}")
