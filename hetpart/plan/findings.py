"""What lint found: records that every format is written from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

_NUMBERED = re.compile(r"[^./]*_\d+")
"""Names that exporters make up, such as ``node_Mul_0`` and ``onnx::MatMul_123``: a number at the end, and no path."""


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    """The model cannot run, or not within the budget."""
    WARNING = "warning"
    """It runs, and costs time, memory or trust that it need not."""
    NOTE = "note"
    """Worth knowing."""

    def reaches(self, other: Severity) -> bool:
        """Whether it is as bad as ``other``, or worse."""
        order = tuple(Severity)
        return order.index(self) <= order.index(other)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where the exporter says that an op comes from."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one model."""

    code: str
    """Of the rule, such as ``HPM002``: never used for another."""
    rule: str
    """Its name, such as ``value-larger-than-budget``."""
    severity: Severity
    path: str
    """The model, as it was named."""
    message: str
    hint: str
    anchor: str
    """What it speaks of, by a name that a re-export keeps where there is one: module path, op, weight or value."""
    op: str = ""
    source: SourceLine | None = None
    explanation: str = field(default="", repr=False, compare=False)
    """The rule's documentation, in Markdown, its first line the summary."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others across re-exports: model, rule and anchor, no position or number."""
        return (self.path, self.code, numberless(self.anchor))


def numberless(name: str) -> str:
    """``name`` without the number that an exporter gave it; as it is where it is a path or has none."""
    return name.rpartition("_")[0] if _NUMBERED.fullmatch(name) else name
