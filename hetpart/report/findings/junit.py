"""Findings as JUnit XML, which most CI systems show as failed tests."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from hetpart.plan.findings import Finding, Severity
from hetpart.report.escape import printable


def as_junit(findings: Sequence[Finding]) -> str:
    """A test suite for every model, a failed test for every finding; notes pass, and so does that there is none."""
    root = ElementTree.Element("testsuites", name="hetpart lint")
    for path in dict.fromkeys(found.path for found in findings):
        own = [found for found in findings if found.path == path]
        failed = sum(found.severity is not Severity.NOTE for found in own)
        suite = ElementTree.SubElement(
            root, "testsuite", name=printable(path), tests=str(len(own)), failures=str(failed), errors="0"
        )
        for found in own:
            _add(suite, found)
    if not findings:  # a report without a test is an error to some
        suite = ElementTree.SubElement(root, "testsuite", name="hetpart lint", tests="1", failures="0", errors="0")
        ElementTree.SubElement(suite, "testcase", classname="hetpart lint", name="no findings")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add(suite: ElementTree.Element, found: Finding) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=found.code, name=f"{found.rule}: {printable(found.anchor or found.path)}"
    )
    text = printable(f"{found.message}. {found.hint}")
    if found.severity is Severity.NOTE:
        ElementTree.SubElement(case, "system-out").text = text
    else:
        ElementTree.SubElement(case, "failure", type=found.severity, message=printable(found.message)).text = text
