"""hetpart places every operator of a model on CPU or CUDA under a memory budget, and runs the pieces.

Example:
    >>> model = hetpart.partition("model.onnx", budget="16GB")
    >>> print(model.report())
    >>> model.save("model.hetpart")
    >>> session = hetpart.Session("model.hetpart")
    >>> session.run(None, {"ids": ids})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetpart import training
    from hetpart.compiler import partition
    from hetpart.cost_model.machines import load_machine
    from hetpart.errors import (
        DeviceUnavailableError,
        ExecutionError,
        HetpartError,
        HetpartWarning,
        InfeasibleError,
        InvalidBundleError,
        InvalidCheckpointError,
        InvalidFeedError,
        InvalidModelError,
        InvalidOptionError,
        MismatchError,
        MissingContentError,
        UnboundDimensionsError,
        UnknownDimensionError,
        UnmatchedPatternError,
    )
    from hetpart.frontend.pins import pin
    from hetpart.frontend.road import export
    from hetpart.partitioned import PartitionedModel
    from hetpart.plan.differences import PlanDiff
    from hetpart.plan.findings import Finding
    from hetpart.plan.io import load_plan
    from hetpart.plan.model import Plan
    from hetpart.pricing import annotate, load
    from hetpart.runtime.session import Session
    from hetpart.whatif.diff import diff
    from hetpart.whatif.explain import ExplainedOp, explain
    from hetpart.whatif.lint import lint
    from hetpart.whatif.sweep import SweptModel, sweep

__version__ = "0.1.0"

__all__ = [
    "DeviceUnavailableError",
    "ExecutionError",
    "ExplainedOp",
    "Finding",
    "HetpartError",
    "HetpartWarning",
    "InfeasibleError",
    "InvalidBundleError",
    "InvalidCheckpointError",
    "InvalidFeedError",
    "InvalidModelError",
    "InvalidOptionError",
    "MismatchError",
    "MissingContentError",
    "PartitionedModel",
    "Plan",
    "PlanDiff",
    "Session",
    "SweptModel",
    "UnboundDimensionsError",
    "UnknownDimensionError",
    "UnmatchedPatternError",
    "__version__",
    "annotate",
    "diff",
    "explain",
    "export",
    "lint",
    "load",
    "load_machine",
    "load_plan",
    "partition",
    "pin",
    "sweep",
    "training",
]

_PACKAGES = frozenset({"training"})
_HOMES = {
    "ExplainedOp": "hetpart.whatif.explain",
    "Finding": "hetpart.plan.findings",
    "PartitionedModel": "hetpart.partitioned",
    "Plan": "hetpart.plan.model",
    "PlanDiff": "hetpart.plan.differences",
    "Session": "hetpart.runtime.session",
    "SweptModel": "hetpart.whatif.sweep",
    "annotate": "hetpart.pricing",
    "diff": "hetpart.whatif.diff",
    "explain": "hetpart.whatif.explain",
    "export": "hetpart.frontend.road",
    "lint": "hetpart.whatif.lint",
    "load": "hetpart.pricing",
    "load_machine": "hetpart.cost_model.machines",
    "load_plan": "hetpart.plan.io",
    "partition": "hetpart.compiler",
    "pin": "hetpart.frontend.pins",
    "sweep": "hetpart.whatif.sweep",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import hetpart` itself loads nothing heavy."""
    if name in _PACKAGES:
        return import_module(f"hetpart.{name}")
    home = _HOMES.get(name) or ("hetpart.errors" if name in __all__ else None)
    if home is None:
        raise AttributeError(f"module 'hetpart' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
