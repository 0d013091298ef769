# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A plan that is a single partition on the host: there is nothing to add to ONNX Runtime's session, but for Ctrl-C."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hetpart.runtime.interrupts import note_during, stoppable, stoppable_options
from hetpart.runtime.perform import called

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Partition


class SoleSession:
    """The calls of its one session. Several threads may make them at once."""

    __slots__ = ("_options", "_partition", "_session", "io_binding")

    def __init__(self, session: onnxruntime.InferenceSession, partition: Partition) -> None:
        self.io_binding = session.io_binding
        self._session, self._partition = session, partition
        self._options = stoppable_options()
        """Of the main thread alone: no other is ended by Ctrl-C."""

    def run(self, names: Sequence[str], feeds: Mapping[str, Any], options: Any) -> list[Any]:
        """As the session's."""
        return self._made(partial(self._session.run, names, feeds), options)

    def run_with_ort_values(self, names: Sequence[str] | None, feeds: Mapping[str, Any], options: Any) -> list[Any]:
        """As the session's."""
        return list(self._made(partial(self._session.run_with_ort_values, names, feeds), options))

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
