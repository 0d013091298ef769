# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Ask rules about a model, and make findings of what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.errors import HetpartError, InvalidModelError
from hetpart.graph.external import LFS_HINT
from hetpart.graph.provenance import STACK_TRACE, scope_of
from hetpart.linter.rule import Mark, Rule, all_rules
from hetpart.linter.source import source_in
from hetpart.linter.suppression import is_ignored, of_model, of_node
from hetpart.plan.findings import Finding, Severity

if TYPE_CHECKING:
    import onnx

    from hetpart.linter.subject import Subject

POINTER_CODE, ILLEGAL_CODE = "HPG007", "HPG010"
"""Of the rules that a model file breaks which cannot be read."""
MOST_FINDINGS = 300
"""Of one rule in one model; a last one says how many more there are."""
MOST_LETTERS = 5000
"""Of a finding's sentence: a name in a file may be as long as the file."""
_MOST_NAME_LETTERS = 1000
MOST_COUNTED = 100_000
"""Of those that are left."""


def findings(subject: Subject, rules: Sequence[Rule]) -> list[Finding]:
    """What ``rules`` find, the worst first; those that need a stage which ``subject`` lacks find nothing."""
    ignored = of_model(subject)
    asked = [rule for rule in rules if rule.stage <= subject.stage and not is_ignored(rule, ignored)]
    found = [finding for rule in asked for finding in _of_rule(rule, subject)]
    order = tuple(Severity)
    return sorted(found, key=lambda finding: (order.index(finding.severity), finding.code))


def unreadable(model: Path, problem: InvalidModelError) -> Finding:
    """The finding that a model file is which cannot be read, whatever is selected: no rule can be asked about it."""
    code = POINTER_CODE if problem.hint == LFS_HINT else ILLEGAL_CODE
    (rule,) = (rule for rule in all_rules() if rule.code == code)
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=rule.severity,
        path=str(model),
        message=problem.message,
        hint=problem.hint,
        anchor="",
        explanation=rule.documentation,
    )


def _of_rule(rule: Rule, subject: Subject) -> Iterator[Finding]:
    marks = (mark for mark in _marks(rule, subject) if not _is_suppressed(rule, mark, subject))
    yield from (_finding(rule, mark, subject) for mark in islice(marks, MOST_FINDINGS))
    left = sum(1 for _ in islice(marks, MOST_COUNTED))
    if left:
        more = f"over {left:,}" if left == MOST_COUNTED else f"{left:,}"
        yield _finding(rule, Mark(f"and {more} more of this kind"), subject)


def _marks(rule: Rule, subject: Subject) -> Iterator[Mark]:
    try:
        yield from rule.check(subject)
    except Exception as error:  # a rule of another package may raise anything
        if rule.is_own:
            raise
        raise HetpartError(
            f"the rule {rule.code} {rule.name} of {rule.home} failed on {subject.name}: "
            f"{type(error).__name__}: {error}",
            hint=f"tell its authors, and leave it out: --ignore {rule.code}",
        ) from error


def _finding(rule: Rule, mark: Mark, subject: Subject) -> Finding:
    node = subject.node_of(mark.op, mark.anchor)
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=rule.severity,
        path=subject.name,
        message=_shortened(mark.message, MOST_LETTERS),
        hint=_shortened(mark.hint or rule.hint, MOST_LETTERS),
        anchor=_shortened(mark.anchor or _anchor(mark.op, subject), _MOST_NAME_LETTERS),
        op=_shortened(mark.op, _MOST_NAME_LETTERS),
        source=None if node is None else source_in(_stack(node), Path.cwd()),
        explanation=rule.documentation,
    )


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _anchor(op: str, subject: Subject) -> str:
    """The module an op belongs to, which a re-export keeps; its name where none is known."""
    if not op:
        return ""
    known, node = subject.ops.get(op), subject.node_of(op)
    scope = known.scope if known is not None else scope_of(node) if node is not None else ""
    return scope or op


def _stack(node: onnx.NodeProto) -> str:
    return next((entry.value for entry in node.metadata_props if entry.key == STACK_TRACE), "")


def _is_suppressed(rule: Rule, mark: Mark, subject: Subject) -> bool:
    node = subject.node_of(mark.op, mark.anchor)
    return node is not None and is_ignored(rule, of_node(node))
