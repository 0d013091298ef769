"""What is known of a model's values before a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx

from hetpart.graph.inference import Marks, Schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from hetpart.graph.kernel_rules import TypedOp

NO_TYPE = onnx.TypeProto()
"""Nobody writes into it."""


@dataclass(frozen=True, slots=True)
class Made:
    """What inference tells of an output."""

    type: onnx.TypeProto | None
    """``None`` where it tells nothing."""
    is_static: bool


@dataclass(slots=True)
class Known:
    """What follows from what, whoever it is called by: layers that are alike make the same of the same."""

    schemas: Schemas
    leaves: Callable[[TypedOp], bool] | None = None
    """What is computed in every run, though all that it reads is constant."""
    marks: Marks = field(default_factory=Marks)
    evaluated: dict[Hashable, NDArray[Any] | None] = field(default_factory=dict[Any, "NDArray[Any] | None"])
    """Results of nodes by their kind and the contents they read."""
    made: dict[Hashable, tuple[Made, ...]] = field(default_factory=dict[Any, Any])
    """Types of their outputs by kind and marks."""
    content_types: dict[Hashable, onnx.TypeProto] = field(default_factory=dict[Any, onnx.TypeProto])
    """Types of what is evaluated."""


@dataclass(slots=True)
class Facts:
    """What is known of every value, by name. Filled in one pass, read afterwards."""

    known: Known
    types: dict[str, onnx.TypeProto] = field(default_factory=dict[str, onnx.TypeProto])
    contents: dict[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """Small constants whose elements are known."""
    marks: dict[str, int] = field(default_factory=dict[str, int])
    """Of values that were read."""
    constant: set[str] = field(default_factory=set[str])
    """Values that do not depend on any graph input."""
    folded: set[str] = field(default_factory=set[str])
    """Integer values with known content: they become initializers, and what only served them goes away."""
    origins: dict[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """For a derived weight, the large weights it is made from."""
    returned: frozenset[str] = frozenset()
    """Graph outputs: an op makes them, however constant they are."""

    @property
    def opsets(self) -> dict[str, int]:
        """Versions by domain."""
        return self.known.schemas.opsets

    def type_of(self, name: str) -> onnx.TypeProto:
        """The type of ``name``; one that says nothing where none is known."""
        return self.types.get(name) or NO_TYPE

    def mark_of(self, name: str) -> int:
        """What two values have in common that are the same to inference."""
        found = self.marks.get(name)
        if found is None:
            found = self.marks[name] = self.known.marks.of(self.type_of(name), self.contents.get(name))
        return found
