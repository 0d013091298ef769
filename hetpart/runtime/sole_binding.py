# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""``onnxruntime.IOBinding`` itself, for a plan that one of its sessions runs: what it refuses is told in words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hetpart.errors import InvalidFeedError
from hetpart.runtime.binding import IOBinding
from hetpart.runtime.refusals import ort_message

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.plan.model import Plan

_BINDING = ("bind_cpu_input", "bind_input", "bind_ortvalue_input", "bind_output", "bind_ortvalue_output")


def sole_binding(session: onnxruntime.InferenceSession, plan: Plan) -> onnxruntime.IOBinding:
    """A binding of ``session``, which runs all of ``plan``."""
    made = _binding_class()(session)
    made.plan = plan
    return made


@cache
def _binding_class() -> Any:
    import onnxruntime

    calls = {name: _told(name, getattr(onnxruntime.IOBinding, name)) for name in _BINDING}
    return type("SoleBinding", (onnxruntime.IOBinding,), calls)


def _told(name: str, bind: Any) -> Any:
    def told(self: Any, *given: Any, **named: Any) -> None:
        try:
            bind(self, *given, **named)
        except Exception as error:  # ONNX Runtime's kinds of error share no other class
            raise _refusal(self.plan, name, given, named, error) from error

    told.__name__, told.__doc__ = name, bind.__doc__
    return told


def _refusal(
    plan: Plan, name: str, given: tuple[Any, ...], named: dict[str, Any], error: Exception
) -> InvalidFeedError:
    """What the binding of a plan that is cut says of the same call."""
    try:
        getattr(IOBinding(plan, None), name)(*given, **named)
    except InvalidFeedError as wrong:
        return wrong
    return InvalidFeedError(
        f"{name} is given what cannot be bound: {ort_message(error)}",
        hint="bind an array or an OrtValue of the planned type and shape",
    )
