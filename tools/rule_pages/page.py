"""All rules of ``hetpart lint`` on one page."""

from __future__ import annotations

from hetpart.linter.rule import FAMILIES, Rule, all_rules

PAGE = "docs/rules.md"
_HEAD = """# Rules of `hetpart lint`

Written by `python -m tools.rule_pages` from the rules themselves; `hetpart rule CODE` prints one.
Those not by default are asked with `--extend-select`.
"""


def page() -> str:
    """The text of ``docs/rules.md``."""
    rules = all_rules()
    families = [
        f"\n## {code}: {name}\n" + "".join(_section(rule) for rule in rules if rule.code.startswith(code))
        for code, name in FAMILIES.items()
    ]
    return _HEAD + "".join(families)


def _section(rule: Rule) -> str:
    off = "" if rule.default else ", not by default"
    text = rule.documentation.replace("\n## ", "\n#### ")
    return f"\n### {rule.code} {rule.name}\n\n{rule.severity}{off}. {text}\n\nHint: {rule.hint}.\n"
