# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A plan that is a single partition on the host: there is nothing to add to ONNX Runtime's session, but for Ctrl-C."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from hetpart.plan.model import ValueForm
from hetpart.runtime.called import CalledSession
from hetpart.runtime.dtypes import is_builtin
from hetpart.runtime.interrupts import note_during, stoppable, stoppable_options
from hetpart.runtime.perform import called
from hetpart.runtime.sole_binding import sole_binding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Partition, Plan
    from hetpart.runtime.frame import Layout
    from hetpart.runtime.sessions import PartSession


class SoleSession:
    """The calls of its one session. Several threads may make them at once."""

    __slots__ = ("_options", "_partition", "_session")

    def __init__(self, session: onnxruntime.InferenceSession, partition: Partition) -> None:
        self._session, self._partition = session, partition
        self._options = stoppable_options()
        """Of the main thread alone: no other is ended by Ctrl-C."""

    @classmethod
    def of(cls, layout: Layout, sessions: Sequence[PartSession]) -> Self | None:
        """Those of the plan of ``layout``; ``None`` where there is something to add."""
        plan = layout.plan
        if len(sessions) != 1 or isinstance(sessions[0], CalledSession):
            return None
        session, partition, borders = sessions[0], plan.partitions[0], (*plan.inputs, *plan.outputs)
        apart = plan.passthrough or plan.homes or plan.granted.conditions or layout.states
        complete = set(partition.inputs) == {spec.name for spec in plan.inputs}
        known = all(spec.form is ValueForm.OPAQUE or is_builtin(spec.dtype) for spec in borders)
        on_host = partition.device == layout.host
        return cls(session, partition) if on_host and complete and known and not apart else None

    def run(self, names: Sequence[str], feeds: Mapping[str, Any], options: Any) -> list[Any]:
        """As the session's."""
        return self._made(partial(self._session.run, names, feeds), options)

    def run_with_ort_values(self, names: Sequence[str] | None, feeds: Mapping[str, Any], options: Any) -> list[Any]:
        """As the session's."""
        return list(self._made(partial(self._session.run_with_ort_values, names, feeds), options))

    def io_binding(self, plan: Plan) -> onnxruntime.IOBinding:
        """The session's, which says in words what it refuses."""
        return sole_binding(self._session, plan)

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        """As the session's."""
        self._made(partial(self._session.run_with_iobinding, binding), options)

    def _made(self, do: Callable[[Any], Any], options: Any) -> Any:
        """Options of the caller's are the caller's to end a run by."""
        if options is not None:
            return do(options)
        try:
            return stoppable(do, self._options)
        except KeyboardInterrupt as pressed:
            note_during(pressed, called(self._partition))
            raise
