"""Which rules are asked: by code, beginning of a code, or name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from hetpart.errors import InvalidOptionError
from hetpart.linter.rule import FAMILIES, Rule

ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for, each a code, the beginning of one, a name, or ``ALL``."""

    select: tuple[str, ...] = ()
    """Instead of the rules selected by default."""
    extend: tuple[str, ...] = ()
    """Beside them."""
    ignore: tuple[str, ...] = ()
    """Not these; of two that speak of a rule the longer wins."""

    def of(self, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules selected.

        Raises:
            InvalidOptionError: an entry speaks of no rule.
        """
        known = words(rules)
        for entry in (*self.select, *self.extend, *self.ignore):
            if entry not in known:
                raise InvalidOptionError(f"{entry!r} is no rule", hint=nearest(entry, rules))
        return tuple(rule for rule in rules if self._takes(rule))

    def _takes(self, rule: Rule) -> bool:
        wanted = max((_weight(entry, rule) for entry in (*self.select, *self.extend)), default=0)
        if not wanted and not self.select and rule.default:
            wanted = 1
        return wanted > max((_weight(entry, rule) for entry in self.ignore), default=0)


def _weight(entry: str, rule: Rule) -> int:
    """How closely ``entry`` speaks of ``rule``; 0 where it does not."""
    if entry == ALL:
        return 1
    if entry == rule.name:
        return len(rule.code) + 1
    return len(entry) if entry and rule.code.startswith(entry) else 0


def words(rules: Sequence[Rule]) -> frozenset[str]:
    """Every entry that speaks of one of ``rules``."""
    codes = {rule.code[:length] for rule in rules for length in range(1, len(rule.code) + 1)}
    return frozenset({ALL, *codes, *(rule.name for rule in rules)})


def nearest(entry: str, rules: Sequence[Rule]) -> str:
    """What may have been meant by an ``entry`` that speaks of none of ``rules``, as a hint says it."""
    near = get_close_matches(entry, [*(rule.name for rule in rules), *(rule.code for rule in rules)], 3)
    meant = f"did you mean {', '.join(near)}? " if near else ""
    families = ", ".join(f"{code} ({name})" for code, name in FAMILIES.items())
    return f"{meant}families are {families}; `hetpart rule` lists all"


def entries(texts: Iterable[str]) -> tuple[str, ...]:
    """``HPG,HPM002`` and several such texts as single entries."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
