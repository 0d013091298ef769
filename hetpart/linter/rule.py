"""What a rule is, and the table of all of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetpart.plan.findings import Severity

if TYPE_CHECKING:
    from hetpart.linter.subject import Subject

_OWN = "hetpart"
_OWN_CODE = re.compile(r"HP[GSDMCPN]\d{3}")
_OTHER_CODE = re.compile(r"(?!HP)[A-Z]{2,8}\d{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "HPG": "graph", "HPS": "shapes", "HPD": "devices", "HPM": "memory", "HPC": "costs", "HPP": "plan",
        "HPN": "numerics",
    }
)  # fmt: skip


class Stage(IntEnum):
    """What a rule looks at. Each is made from the one before, where that could be made."""

    FILE = 0
    """The file as it is, legal or not."""
    GRAPH = 1
    """The imported graph, dimensions bound."""
    COSTS = 2
    """Every op priced."""
    PLAN = 3
    """A placement under a budget."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a model that breaks a rule."""

    message: str
    """The finding's sentence: the op's or value's name in it, and the numbers."""
    anchor: str = ""
    """Name of a weight or value where no op is meant; the model where both are empty."""
    op: str = ""
    hint: str = ""
    """Instead of the rule's own."""


Check = Callable[["Subject"], Iterator[Mark]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of lint. Its documentation is its check's docstring."""

    code: str
    name: str
    severity: Severity
    stage: Stage
    hint: str
    check: Check
    default: bool = True
    """Whether it is selected where nobody selects."""
    tries: Stage = Stage.FILE
    """The stage to try to make: a check that looks at why that failed needs none of it."""

    @property
    def documentation(self) -> str:
        return inspect.cleandoc(self.check.__doc__ or "")

    @property
    def home(self) -> str:
        """The package that the rule comes from."""
        return self.check.__module__.partition(".")[0]

    @property
    def is_own(self) -> bool:
        return self.home == _OWN

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.documentation.partition("\n")[0]


_RULES: dict[str, Rule] = {}


def rule(  # noqa: PLR0913 - the columns of the table
    code: str,
    name: str,
    severity: Severity,
    stage: Stage,
    *,
    hint: str,
    default: bool = True,
    tries: Stage = Stage.FILE,
) -> Callable[[Check], Check]:
    """Enter the decorated check into the table of rules.

    Args:
        code: Family and number; a code is never used again for another rule.
        name: In kebab case.
        severity: Of its findings.
        stage: What the check needs.
        hint: What to do about a finding.
        default: Whether it is selected by default.
        tries: What to try to make for it, where the check speaks of why that failed.

    Raises:
        ValueError: the code or the name is another rule's, or not of the form that codes and names have.
    """

    def enter(check: Check) -> Check:
        made = Rule(code, name, severity, stage, hint, check, default, max(stage, tries))
        _require_free(made)
        _RULES[code] = made
        return check

    return enter


def _require_free(made: Rule) -> None:
    form = _OWN_CODE if made.is_own else _OTHER_CODE
    if not form.fullmatch(made.code):
        raise ValueError(f"{made.code!r} is no code: letters that do not begin with HP and three digits, as in ABC001")
    if not _NAME.fullmatch(made.name):
        raise ValueError(f"{made.name!r} of {made.code} is no name: write kebab-case")
    for known in _RULES.values():
        if made.code == known.code or made.name == known.name:
            raise ValueError(f"{made.code} {made.name} is taken: {known.home} has {known.code} {known.name}")


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code, those of other packages among them.

    Raises:
        HetpartError: another package's rules cannot be loaded.
    """
    import hetpart.linter.rules
    from hetpart.linter.others import enter_others

    hetpart.linter.rules.enter_all()
    enter_others()
    return tuple(_RULES[code] for code in sorted(_RULES))
