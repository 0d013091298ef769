"""Lint a model: read, price and place it as far as that goes, and ask the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from hetpart.budgets import BudgetOption
from hetpart.devices import ACCELERATOR
from hetpart.errors import (
    InfeasibleError,
    InvalidModelError,
    UnboundDimensionsError,
    UnmatchedPatternError,
)
from hetpart.frontend.road import as_readable
from hetpart.graph.load import read
from hetpart.linter.check import findings
from hetpart.linter.rule import Rule, Stage, all_rules
from hetpart.linter.select import Selection, entries
from hetpart.linter.subject import Subject
from hetpart.plan.findings import Finding
from hetpart.plan.model import Plan
from hetpart.plan.references import machine_reference, model_reference
from hetpart.request import Request, RequestOptions

if TYPE_CHECKING:
    from hetpart.frontend.model import Model

Names = Iterable[str] | str
Progress = Callable[[str], None]


def lint(  # noqa: PLR0913 - the options are what users type
    model: Model,
    *,
    budget: BudgetOption = None,
    hardware: str | PathLike[str] | None = None,
    plan: str | PathLike[str] | Plan | None = None,
    select: Names = (),
    ignore: Names = (),
    extend_select: Names = (),
    progress: Progress | None = None,
    **options: Unpack[RequestOptions],
) -> list[Finding]:
    """What the rules find in ``model``, the worst first.

    Args:
        model: An ``.onnx`` or ``.pt2`` file, or a model in memory, PyTorch's too. An ONNX model need not be legal, nor
            have its weights.
        budget: As in ``hetpart.partition``. With it the model is placed, and rules of plans are asked.
        hardware: As in ``hetpart.partition``.
        plan: A bundle, plan file or plan that was made for the model before.
        select: Rules to ask instead of the usual ones: codes, their beginnings, names, ``"ALL"``.
        ignore: Rules not to ask.
        extend_select: Rules to ask beside the others.
        progress: Called with the name of every stage as it begins.
        **options: Those of ``hetpart.partition``.

    Raises:
        InvalidModelError: The file is missing, cut short or no ONNX model at all.
        InvalidBundleError: ``plan`` cannot be read.
        InvalidOptionError: An option cannot be understood.
    """
    chosen = Selection(_texts(select), _texts(extend_select), _texts(ignore)).of(all_rules())
    question = _Question(Request.of(budget, options), budget is not None, hardware, progress or _silent)
    question.say("reading the model")
    loaded = read(as_readable(model, question.request.example, dict(question.request.shapes)))
    kept = plan if plan is None or isinstance(plan, Plan) else _kept(Path(plan))
    subject = Subject(str(loaded.path or loaded.name), loaded, kept_plan=kept, plan=None)
    subject = question.answered(subject, _needed(chosen, planned=question.places or kept is not None))
    question.say("asking the rules")
    return findings(subject, chosen)


def _kept(path: Path) -> Plan:
    from hetpart.plan.io import load_plan

    return load_plan(path)


def _silent(stage: str) -> None:
    del stage


def _texts(given: Names) -> tuple[str, ...]:
    return entries([given] if isinstance(given, str) else given)


def _needed(rules: Iterable[Rule], *, planned: bool) -> Stage:
    """The last stage to make for ``rules``."""
    stages = (rule.tries for rule in rules)
    return min(max(stages, default=Stage.FILE), Stage.PLAN if planned else Stage.COSTS)


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """How a model is to be read, priced and placed."""

    request: Request
    places: bool
    """Whether a budget was given, so that the model is placed."""
    hardware: str | PathLike[str] | None
    say: Progress

    def answered(self, subject: Subject, needed: Stage) -> Subject:
        """``subject`` with every stage up to ``needed``, or why the next one could not be made.

        Raises:
            InvalidOptionError: an option cannot be understood.
        """
        try:
            for known in self._stages(subject, needed):
                subject = known
        except _FINDINGS as problem:
            return replace(subject, problem=problem)
        return subject

    def _stages(self, subject: Subject, needed: Stage) -> Iterator[Subject]:
        machine = self.request.machine(self.hardware)
        budgets = self.request.resolved_budgets(machine).nbytes
        own = budgets.get(machine.devices[ACCELERATOR].name) if self.places and machine.accelerators else None
        here = leaves_processor_open(self.hardware)
        subject = replace(subject, machine=machine_reference(machine), own_processor=here, budget_bytes=own)
        yield subject
        if needed < Stage.GRAPH:
            return
        imported = self.request.read(subject.loaded)
        subject = replace(subject, imported=imported)
        yield subject
        if needed < Stage.COSTS:
            return
        self.say("pricing its operators")
        priced = self.request.priced(imported.graph, machine)
        subject = replace(subject, costs=priced.costs, plan=subject.kept_plan)
        yield subject
        if self.places and needed >= Stage.PLAN:
            from hetpart.partitioner.assembly.write import write_plan

            self.say("placing them")
            assembly = priced.placed(priced.formulated(budgets))
            yield replace(subject, plan=write_plan(assembly, imported, model_reference(imported), self.request.texts()))


def leaves_processor_open(hardware: str | PathLike[str] | None) -> bool:
    """Whether the host is this machine's processor: neither a name nor a file says another."""
    return hardware is None or ("+" not in str(hardware) and Path(hardware).suffix != ".toml")


_FINDINGS = (UnboundDimensionsError, UnmatchedPatternError, InfeasibleError, InvalidModelError)
"""Problems of the model, which rules speak of."""
