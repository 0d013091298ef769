"""The rules of ``hetpart lint``: a list of them, and a page for every family."""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.linter.rule import FAMILIES, Rule, all_rules

FOLDER = "docs/rules"
_INDEX = """# Rules of `hetpart lint`

Written by `python -m tools.rule_pages` from the rules themselves; `hetpart rule CODE` prints one.
Those not by default are asked with `--extend-select`.
"""


def pages() -> Mapping[str, str]:
    """Texts of the files in ``docs/rules``, by name. Rules of other packages are not among them."""
    rules = [rule for rule in all_rules() if rule.is_own]
    families = {
        f"{name}.md": _family(code, name, [rule for rule in rules if rule.code.startswith(code)])
        for code, name in FAMILIES.items()
    }
    return {"index.md": _INDEX + "".join(_part(code, name, rules) for code, name in FAMILIES.items()), **families}


def _part(code: str, name: str, rules: list[Rule]) -> str:
    rows = "".join(_row(rule, f"{name}.md") for rule in rules if rule.code.startswith(code))
    return f"\n## {code}: {name}\n\n| rule | severity | by default | |\n|---|---|---|---|\n{rows}"


def _row(rule: Rule, page: str) -> str:
    link = f"[{_title(rule)}]({page}#{_title(rule).lower().replace(' ', '-')})"
    return f"| {link} | {rule.severity} | {'yes' if rule.default else 'no'} | {rule.summary} |\n"


def _family(code: str, name: str, rules: list[Rule]) -> str:
    return f"# {code}: {name}\n\nPart of the [rules of `hetpart lint`](index.md).\n" + "".join(map(_section, rules))


def _section(rule: Rule) -> str:
    off = "" if rule.default else ", not by default"
    text = rule.documentation.replace("\n## ", "\n### ")
    return f"\n## {_title(rule)}\n\n{rule.severity}{off}. {text}\n\nHint: {rule.hint}.\n"


def _title(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"
