"""What differs between two plans, or between the plans of two models."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from hetpart.budgets import BudgetOption
from hetpart.compiler import partition
from hetpart.config import parse_share
from hetpart.errors import InvalidOptionError
from hetpart.partitioned import PartitionedModel
from hetpart.plan.diff import diff_plans
from hetpart.plan.differences import PlanDiff
from hetpart.plan.io import PLAN_FILE, load_plan
from hetpart.plan.model import Plan
from hetpart.request import RequestOptions

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    _Model = str | PathLike[str] | onnx.ModelProto | onnx_ir.Model
    _Version = _Model | Plan | PartitionedModel

RegressionOption = str | float | None
"""What ``max_regression=`` may be: ``"5%"`` or 0.05."""
Progress = Callable[[str], None]
_LIMIT_HINT = "write --max-regression 5%"


def diff(
    before: str | PathLike[str] | Plan | PartitionedModel | onnx.ModelProto | onnx_ir.Model,
    after: str | PathLike[str] | Plan | PartitionedModel | onnx.ModelProto | onnx_ir.Model,
    *,
    max_regression: RegressionOption = None,
    budget: BudgetOption = None,
    hardware: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[RequestOptions],
) -> PlanDiff:
    """How ``after`` differs from ``before``: in latency, peaks and copies, and in where ops and weights are.

    Args:
        before: A bundle, a plan file, a plan or a partitioned model; or a model, which is partitioned with the options.
        after: Likewise. Two models are partitioned with the same options.
        max_regression: How much latency, any device's peak and copied bytes may grow: ``"5%"`` or 0.05. What grew by
            more is among ``regressions``.
        budget: As in ``hetpart.partition``.
        hardware: As in ``hetpart.partition``.
        progress: Called with the name of every stage as it begins.
        **options: Those of ``hetpart.partition``.

    Raises:
        InvalidBundleError: A plan cannot be read.
        InvalidModelError: A model cannot be read, or an op runs nowhere.
        InvalidOptionError: An option cannot be understood, or is given where both are plans already.
        InfeasibleError: A model does not fit the budget.
    """
    limit = parse_regression(max_regression)
    asked = [name for name, value in {"budget": budget, "hardware": hardware, **options}.items() if _asked(name, value)]

    def planned(version: _Version) -> Plan:
        known = _known(version)
        if isinstance(known, Plan):
            return known
        return partition(known, budget=budget, hardware=hardware, progress=progress, **options).plan

    if asked and all(isinstance(_known(version), Plan) for version in (before, after)):
        raise InvalidOptionError(
            f"both are plans already: {', '.join(name.replace('_', '-') for name in asked)} would change nothing",
            hint="leave the options out, or name the models",
        )
    return diff_plans(planned(before), planned(after), limit)


def _asked(name: str, value: object) -> bool:
    """Whether an option says anything: 0 threads leave them to the machine."""
    return value is not None and (name, value) != ("threads", 0)


def _known(version: _Version) -> Plan | _Model:
    """The plan that ``version`` is or names, or the model."""
    if isinstance(version, PartitionedModel):
        return version.plan
    if isinstance(version, str | PathLike):
        path = Path(version)
        return load_plan(path) if names_plan(path) else path
    return version


def names_plan(path: Path) -> bool:
    """Whether ``path`` is to be read as a bundle or a plan file, and not as a model."""
    return path.is_dir() or path.suffix == Path(PLAN_FILE).suffix


def parse_regression(given: RegressionOption) -> float | None:
    """A share from ``5%`` or 0.05.

    Raises:
        InvalidOptionError: it is neither.
    """
    if given is None:
        return None
    share = parse_share(given) if isinstance(given, str) else given
    if share is None or not 0 <= share < inf:
        raise InvalidOptionError(f"the regression {given!r} is not a share", hint=_LIMIT_HINT)
    return float(share)
