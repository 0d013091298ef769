"""``python -m tools.rule_pages``: write ``docs/rules``."""

from __future__ import annotations

from pathlib import Path

from tools.rule_pages.pages import FOLDER, pages

if __name__ == "__main__":
    Path(FOLDER).mkdir(exist_ok=True)
    for name, text in pages().items():
        (Path(FOLDER) / name).write_text(text, encoding="utf-8")
