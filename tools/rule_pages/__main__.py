"""``python -m tools.rule_pages``: write ``docs/rules.md``."""

from __future__ import annotations

from pathlib import Path

from tools.rule_pages.page import PAGE, page

if __name__ == "__main__":
    Path(PAGE).write_text(page(), encoding="utf-8")
