"""What importing a model asks of who knows the kernels that will run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetpart.graph.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class TypedOp:
    """An op and the dtypes of what it reads and makes, before it is one of a graph."""

    domain: str
    op_type: str
    version: int
    reads: tuple[str | None, ...]
    """By position; ``None`` where one is left out."""
    makes: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class KernelRules:
    """Which ops are run otherwise than they stand in the model."""

    expands: Callable[[Op, Graph], bool]
    """Whether the body of the operator takes its place."""
    leaves: Callable[[TypedOp], bool] | None = None
    """Whether an op on constants alone is computed in every run, as nothing computes it when a session is made."""
