"""The page as text. Its own style and script are the only ones that its policy lets a browser use."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hetpart import __version__
from hetpart.report.escape import printable
from hetpart.report.page import tables
from hetpart.report.page.budget import budget
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.memory import memory
from hetpart.report.page.opening import opening
from hetpart.report.page.ops import ops
from hetpart.report.page.partition_graph import partition_graph
from hetpart.report.page.parts import Section
from hetpart.report.page.roofline import roofline
from hetpart.report.page.timeline import timeline
from hetpart.report.sentences import model_facts

_FOLDER = Path(__file__).parent
_SECTIONS: tuple[Callable[[Evidence], Section | None], ...] = (
    opening,
    partition_graph,
    memory,
    timeline,
    tables.training,
    roofline,
    budget,
    ops,
    tables.baselines,
    tables.certificate,
    tables.findings,
    tables.notes,
)


def render(evidence: Evidence) -> str:
    """The whole page."""
    plan = evidence.plan
    style, script = _asset("page.css"), _asset("page.js")
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.jinja").render(
        model=printable(plan.model.path.rpartition("/")[2] or plan.model.name),
        path=printable(plan.model.path),
        facts=model_facts(plan),
        machine=printable(plan.machine.name),
        origin=printable(plan.machine.origin),
        version=__version__,
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        sections=[made for section in _SECTIONS if (made := section(evidence)) is not None],
    )


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded from anywhere, and of what stands in the page only what has these digests is obeyed."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
