"""How the plan describes a value."""

from __future__ import annotations

from hetpart.graph.ir import Value, ValueKind
from hetpart.plan.model import ValueForm, ValueSpec


def value_form(value: Value) -> ValueForm:
    """How the runtime carries ``value`` across a border."""
    if value.kind is not ValueKind.TENSOR or value.dtype in ("string", ""):
        return ValueForm.OPAQUE
    return ValueForm.STATIC if value.is_static else ValueForm.DYNAMIC


def value_spec(value: Value, index_range: int | None = None) -> ValueSpec:
    """The plan's record of a value at a border."""
    return ValueSpec(value.name, value.dtype, value.shape, value.nbytes, value_form(value), index_range)
