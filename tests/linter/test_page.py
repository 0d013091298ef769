from __future__ import annotations

from pathlib import Path

from tools.rule_pages.page import PAGE, page


def test_the_page_is_the_rules() -> None:
    """Otherwise: `python -m tools.rule_pages`."""
    assert (Path(__file__).parent.parent.parent / PAGE).read_text(encoding="utf-8") == page()
