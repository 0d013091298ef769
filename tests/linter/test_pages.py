from __future__ import annotations

from pathlib import Path

from tools.rule_pages.pages import FOLDER, pages


def test_the_pages_are_the_rules() -> None:
    """Otherwise: `python -m tools.rule_pages`."""
    written = (Path(__file__).parent.parent.parent / FOLDER).iterdir()
    assert {path.name: path.read_text(encoding="utf-8") for path in written} == pages()
