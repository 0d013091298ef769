# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The model as it was before cutting, in one ONNX Runtime session: what a plan's results are compared with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.errors import ExecutionError, InvalidBundleError
from hetpart.plan.fingerprint import verify_sources
from hetpart.plan.model import ValueForm
from hetpart.runtime.dtypes import is_builtin
from hetpart.runtime.feeds import checked_feeds
from hetpart.runtime.interrupts import stoppable, stoppable_options
from hetpart.runtime.refusals import ort_hint, ort_message
from hetpart.runtime.sessions import SessionSettings, whole_session
from hetpart.runtime.transport import HostMemory
from hetpart.runtime.values import to_array, to_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.plan.model import Plan
    from hetpart.runtime.session import Session


_NO_CHECK = "ONNX Runtime refuses the model as it stands, or it needs more memory than there is: run without --check"


def run_uncut(session: Session, feeds: Mapping[str, Any], *, exact: bool) -> list[Any]:
    """Results of the model as it was before cutting, in one ONNX Runtime session.

    Raises:
        InvalidBundleError: the model file is not there any more, or changed.
        ExecutionError: ONNX Runtime cannot load or run it.
    """
    path = _uncut_model(session)
    verify_sources(path, session.plan.model.sources)
    settings = SessionSettings(emulate=session.emulate, optimize=not exact, threads=session.threads)
    try:
        uncut = whole_session(path, session.plan, settings)
        return _results(uncut, session.plan, feeds)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        raise ExecutionError(
            f"the uncut model {path} does not run in ONNX Runtime: {ort_message(error)}",
            hint=ort_hint(error, _NO_CHECK),
        ) from error


def _uncut_model(session: Session) -> Path:
    """The model's file: beside the weights, which moved with it and are unchanged, else where it was."""
    known = Path(session.plan.model.path)
    places = [session.weights / known.name] if session.weights is not None else []
    found = next((path for path in (*places, known) if path.is_file()), None)
    if found is None:
        raise InvalidBundleError(
            f"--check needs the uncut model, and {session.plan.model.path or 'a model from memory'} is not there",
            hint="put the model file back, or run without --check",
        )
    return found


def _results(uncut: Any, plan: Plan, feeds: Mapping[str, Any]) -> list[Any]:
    names = [spec.name for spec in plan.outputs]
    checked, borders = checked_feeds(plan.inputs, feeds), (*plan.inputs, *plan.outputs)
    if all(spec.form is ValueForm.OPAQUE or is_builtin(spec.dtype) for spec in borders):
        return stoppable(partial(uncut.run, names, checked), stoppable_options())
    # `run` neither takes nor gives the types that NumPy lacks.
    host = HostMemory()
    values = {spec.name: to_value(spec, checked[spec.name]) for spec in plan.inputs}
    made = stoppable(partial(uncut.run_with_ort_values, names, values), stoppable_options())
    return [to_array(spec, value, host) for spec, value in zip(plan.outputs, made, strict=True)]
