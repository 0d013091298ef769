"""What a page on a plan shows beside it: the machine's figures, what lint finds, a measured run, a curve."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.graph.load import read
from hetpart.linter.check import findings
from hetpart.linter.rule import all_rules
from hetpart.linter.select import Selection
from hetpart.linter.subject import Subject
from hetpart.plan.model import Plan
from hetpart.plan.references import machine_reference
from hetpart.plan.sweeps import read_curve
from hetpart.plan.traces import read_trace
from hetpart.report.page.evidence import Evidence
from hetpart.request import Request, RequestOptions
from hetpart.whatif.lint import leaves_processor_open, lint

if TYPE_CHECKING:
    from hetpart.devices import Machine
    from hetpart.partitioned import PartitionedModel
    from hetpart.plan.findings import Finding

Progress = Callable[[str], None]
_DEFAULT = "default"
_LONGEST_NUMBER = 10
USUAL_RULES = Selection()


@dataclass(frozen=True, slots=True)
class _Linted:
    """What lint found, or why it was not asked."""

    found: tuple[Finding, ...] | None = None
    obstacle: str = ""


def evidence_of_bundle(
    bundle: Path,
    plan: Plan,
    *,
    trace: Path | None = None,
    curve: Path | None = None,
    rules: Selection | None = USUAL_RULES,
    progress: Progress | None = None,
) -> Evidence:
    """What is known of the plan of ``bundle``. Its model is looked for beside its weights, and where it was.

    Args:
        bundle: The bundle, or a plan file.
        plan: Its plan.
        trace: A run of it, as ``hetpart run --trace`` writes it.
        curve: Its model's curve, as ``hetpart sweep --json`` prints it.
        rules: Those of lint to ask, if the model is there; ``None`` asks none.
        progress: Called with the name of every stage as it begins.

    Raises:
        InvalidOptionError: ``trace`` or ``curve`` cannot be read, or is not of this plan.
    """
    run = None if trace is None else read_trace(trace, plan)
    found = None if curve is None else read_curve(curve, plan)
    asked = _Linted(obstacle="--no-lint was given")
    if rules is not None:
        (progress or _silent)("asking the rules of lint")
        asked = _lint_of_bundle(bundle, plan, rules)
    return Evidence(plan, _known_machine(plan), asked.found, asked.obstacle, run, found)


def evidence_of_model(
    model: PartitionedModel, hardware: str | PathLike[str] | None, rules: Selection = USUAL_RULES
) -> Evidence:
    """What is known of a model that was just placed, lint's findings among it; nothing is read or priced anew.

    Args:
        model: What ``hetpart.partition`` made.
        hardware: As it was given there.
        rules: Those of lint to ask.
    """
    machine = model.costs.machine
    asked = _lint_of_model(model, hardware, rules)
    return Evidence(model.plan, machine, asked.found, asked.obstacle)


def _silent(stage: str) -> None:
    del stage


def _lint_of_model(model: PartitionedModel, hardware: str | PathLike[str] | None, rules: Selection) -> _Linted:
    path = model.imported.path
    if path is None:
        return _Linted(obstacle="the model is in memory alone")
    subject = Subject(
        str(path), read(path), model.imported, model.costs, model.plan,
        machine=model.plan.machine, own_processor=leaves_processor_open(hardware),
    )  # fmt: skip
    return _Linted(tuple(findings(subject, rules.of(all_rules()))))


def _lint_of_bundle(bundle: Path, plan: Plan, rules: Selection) -> _Linted:
    path = _model_file(bundle, plan)
    if path is None:
        return _Linted(obstacle=f"the model {plan.model.path or 'was in memory alone'} is not there")
    try:
        found = lint(
            path, hardware=_hardware(plan), plan=plan, select=rules.select, ignore=rules.ignore,
            extend_select=rules.extend, **_options(plan),
        )  # fmt: skip
    except HetpartError as error:
        return _Linted(obstacle=error.message)
    return _Linted(tuple(found))


def _model_file(bundle: Path, plan: Plan) -> Path | None:
    """Beside the weights, which may have moved with it, else where it was."""
    known = Path(plan.model.path)
    folder = bundle if bundle.is_dir() else bundle.parent
    places = [folder / plan.model.folder / known.name] if plan.model.folder else []
    return next((path for path in (*places, known) if plan.model.path and path.is_file()), None)


def _hardware(plan: Plan) -> str | None:
    named = plan.options.get("hardware", _DEFAULT)
    return None if named == _DEFAULT else named


def _options(plan: Plan) -> RequestOptions:
    """What the model was read and priced with. Its placement is known: no option of that matters."""
    options = RequestOptions(threads=_threads(plan))
    if plan.options.get("shape"):
        options["shape"] = plan.options["shape"]
    if plan.options.get("trip_count"):
        options["trip_count"] = plan.options["trip_count"].split()
    access = plan.options.get("access", "")
    if access:
        options["access"] = _probabilities(access) if access.startswith("{") else Path(access)
    return options


def _threads(plan: Plan) -> int:
    text = plan.options.get("threads", "")
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 0


def _probabilities(text: str) -> dict[str, float]:
    """An access profile that was given in Python."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidOptionError(f"the plan's access profile is no JSON: {error}") from error


def _known_machine(plan: Plan) -> Machine | None:
    """The machine the plan was priced for, if it can be found here and no figure of it changed."""
    try:
        machine = Request.of(None, RequestOptions(threads=_threads(plan))).machine(_hardware(plan))
    except HetpartError:
        return None
    return machine if machine_reference(machine).digest == plan.machine.digest else None
