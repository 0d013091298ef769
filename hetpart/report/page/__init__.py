"""The report as one HTML file: opens anywhere, asks no network for anything, and runs nothing that a model brought."""

from __future__ import annotations

from pathlib import Path

from hetpart.files import write_whole
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.render import render

__all__ = ["Evidence", "render", "write_page"]


def write_page(evidence: Evidence, path: Path) -> None:
    """Write the page to ``path`` in one step.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, render(evidence).encode())
