"""The difference between two plans as a text of every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hetpart.plan.differences import DIFF_SCHEMA, DIFF_VERSION, PlanDiff
from hetpart.report.difference.markdown import as_markdown
from hetpart.report.difference.text import diff_parts
from hetpart.report.escape import json_text
from hetpart.report.json import to_json
from hetpart.report.layout import plain


def as_text(diff: PlanDiff) -> str:
    """As a terminal shows it, without colours."""
    return plain(diff_parts(diff))


def as_json(diff: PlanDiff) -> str:
    """One object that obeys ``docs/diff.schema.json``, in ASCII."""
    content = {"schema": DIFF_SCHEMA, "version": DIFF_VERSION, **to_json(diff)}
    return json_text(content) + "\n"


FORMATS: Mapping[str, Callable[[PlanDiff], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "json": as_json}
)
