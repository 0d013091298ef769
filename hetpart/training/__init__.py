"""A training step as a graph: its optimizers, embeddings, state and checkpoints."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetpart.errors import HetpartError

if TYPE_CHECKING:
    from hetpart.training.compiled import compile, plan  # noqa: A004 - `hetpart.training.compile`
    from hetpart.training.fitting import Checkpoints, CSVLog, Evaluation, StopTraining, TensorBoard, accuracy, auc, fit
    from hetpart.training.optimizers import (
        FTRL,
        SGD,
        Adagrad,
        Adam,
        AdamW,
        Group,
        Groups,
        LazyAdam,
        Momentum,
        SparseAdagrad,
        SparseFTRL,
        SparseSGD,
    )
    from hetpart.training.step import Step

_OPTIMIZERS = (
    "FTRL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Group",
    "Groups",
    "LazyAdam",
    "Momentum",
    "SparseAdagrad",
    "SparseFTRL",
    "SparseSGD",
)
_FITTING = ("CSVLog", "Checkpoints", "Evaluation", "StopTraining", "TensorBoard", "accuracy", "auc", "fit")
_HOMES = {
    **dict.fromkeys(_FITTING, "hetpart.training.fitting"),
    **dict.fromkeys(_OPTIMIZERS, "hetpart.training.optimizers"),
    "Step": "hetpart.training.step",
    "compile": "hetpart.training.compiled",
    "plan": "hetpart.training.compiled",
}

_EXTRA = frozenset({"torch", "safetensors"})
"""What installing hetpart alone leaves out."""

__all__ = [
    "FTRL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "CSVLog",
    "Checkpoints",
    "Evaluation",
    "Group",
    "Groups",
    "LazyAdam",
    "Momentum",
    "SparseAdagrad",
    "SparseFTRL",
    "SparseSGD",
    "Step",
    "StopTraining",
    "TensorBoard",
    "accuracy",
    "auc",
    "compile",
    "fit",
    "plan",
]


def __getattr__(name: str) -> Any:
    """Import PyTorch when a name that needs it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise HetpartError(
            f"hetpart.training.{name} needs {error.name}, which is not installed",
            hint="pip install 'hetpart[training]'",
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
