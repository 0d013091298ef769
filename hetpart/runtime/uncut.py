# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The model as it was before cutting, in one ONNX Runtime session: what a plan's results are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.errors import ExecutionError, InvalidBundleError, InvalidOptionError
from hetpart.frontend.example import PROGRAM_SUFFIX
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.plan.cut_models import WIDENED
from hetpart.plan.fingerprint import verify_sources
from hetpart.plan.model import ValueForm
from hetpart.runtime.compare import Uncut
from hetpart.runtime.dtypes import is_builtin
from hetpart.runtime.feeds import checked_feeds
from hetpart.runtime.interrupts import stoppable, stoppable_options
from hetpart.runtime.refusals import ort_hint, ort_message
from hetpart.runtime.sessions import SessionSettings, whole_session
from hetpart.runtime.transport import HostMemory
from hetpart.runtime.values import to_array, to_value
from hetpart.runtime.widened import in_float32

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnxruntime

    from hetpart.plan.model import Plan
    from hetpart.runtime.session import Session


_NO_CHECK = "ONNX Runtime refuses the model as it stands, or it needs more memory than there is: run without --check"


def run_uncut(session: Session, feeds: Mapping[str, Any], *, exact: bool) -> Uncut:
    """Results of the model as it was before cutting, in one ONNX Runtime session; a PyTorch program's from PyTorch.

    Raises:
        InvalidOptionError: results of PyTorch are to be compared bit for bit.
        InvalidBundleError: the model file is not there any more, or changed.
        ExecutionError: ONNX Runtime cannot load or run it.
    """
    path = _uncut_model(session)
    if path.suffix == PROGRAM_SUFFIX:
        return _run_program(path, session, feeds, exact=exact)
    verify_sources(path, session.plan.model.sources)
    settings = SessionSettings(emulate=session.emulate, optimize=not exact, threads=session.threads)
    try:
        uncut = _uncut_session(path, session.plan, settings)
        return Uncut(_results(uncut.session, session.plan, feeds), uncut.through)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        if CALL_DOMAIN in str(error):
            raise InvalidOptionError(
                f"{path.name} has ops that PyTorch runs, and --check compares with one session of ONNX Runtime",
                hint="compare with the results of a plan made with --placement all-cpu: --output writes them",
            ) from error
        raise ExecutionError(
            f"the uncut model {path} does not run in ONNX Runtime: {ort_message(error)}",
            hint=ort_hint(error, _NO_CHECK),
        ) from error


def _run_program(path: Path, session: Session, feeds: Mapping[str, Any], *, exact: bool) -> Uncut:
    if exact:
        raise InvalidOptionError(
            f"--exact compares what ONNX Runtime computes, and {path.name} is run by PyTorch, whose kernels are others",
            hint="use --check, which compares within the tolerance of every type",
        )
    from hetpart.runtime.eager import run_eager

    verify_sources(path, session.plan.model.sources[:1])  # the session found its weights where they lie
    return run_eager(path, session.plan, feeds, session.weights)


def _uncut_session(path: Path, plan: Plan, settings: SessionSettings) -> _Session:
    try:
        return _Session(whole_session(str(path), plan, settings), frozenset())
    except Exception:  # ONNX Runtime's kinds of error share no other class; what widening does not mend is raised again
        wide = _in_float32(path, plan) if settings.emulate or len(plan.used_devices) == 1 else None
        if wide is None:
            raise
    return _Session(whole_session(wide.model, plan, settings, wide.folder), frozenset({"bfloat16"}))


@dataclass(frozen=True, slots=True)
class _Session:
    session: onnxruntime.InferenceSession
    through: frozenset[str]
    """As in ``Uncut``."""


@dataclass(frozen=True, slots=True)
class _Wide:
    model: bytes
    folder: Path | None


def _in_float32(path: Path, plan: Plan) -> _Wide | None:
    """The model with what the processor has no kernel for in bfloat16 computed in float32; ``None`` where nothing is.

    Partitions on the processor do so, too.
    """
    import onnx_ir as ir

    from hetpart.cost_model.kernels import ONNX_RUNTIME
    from hetpart.cost_model.session.widened import widened_names
    from hetpart.graph.from_onnx import import_onnx

    imported = import_onnx(path, plan.model.dimensions, ONNX_RUNTIME)
    names = widened_names(imported.graph, imported.proto)
    if not names:
        return None
    whole = ir.from_proto(imported.proto)
    for node in whole.graph:
        if node.name in names:
            node.metadata_props[WIDENED] = "float32"
    return _Wide(in_float32(ir.to_proto(whole).SerializeToString()), imported.folder)


def _uncut_model(session: Session) -> Path:
    """The model's file: beside the weights, which moved with it and are unchanged, else where it was."""
    known = Path(session.plan.model.path)
    places = [session.weights / known.name] if session.weights is not None else []
    found = next((path for path in (*places, known) if path.is_file()), None)
    if found is None and not session.plan.model.path:
        raise InvalidBundleError(
            "--check needs the uncut model, and the bundle is of one that was never in a file",
            hint="compare with it in Python, or run without --check",
        )
    if found is None:
        raise InvalidBundleError(
            f"--check needs the uncut model, and {session.plan.model.path} is not there",
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
