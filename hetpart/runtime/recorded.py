# pyright: reportMissingTypeStubs=false
"""What a session tells of its last run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.errors import ExecutionError
from hetpart.runtime.called import CalledSession
from hetpart.runtime.held import NO_ARENA, ArenaUse, held_memory
from hetpart.runtime.mapped import mapped_bytes
from hetpart.runtime.profiles import called_events, node_events
from hetpart.runtime.trace import write_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from hetpart.plan.bench import HeldMemory
    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Plan
    from hetpart.runtime.executor import Executor
    from hetpart.runtime.frame import Layout
    from hetpart.runtime.held import ValueWatch
    from hetpart.runtime.record import RunRecord, TaskTimes
    from hetpart.runtime.sessions import PartSession


class RecordedSession:
    """A session whose runs can be looked at afterwards."""

    emulate: bool
    plan: Plan
    _executor: Executor | None
    _record: RunRecord | None
    _layout: Layout
    _sessions: Sequence[PartSession]
    _weights: Sequence[Mapping[str, Any]]
    _models: Sequence[bytes]
    """Of the partitions, where runs are noted."""

    def _require_open(self) -> None: ...

    @property
    def overlaps(self) -> bool:
        """Whether devices and copies work at the same time in its runs; it is known from the first one on."""
        return self._executor is not None and self._executor.overlaps

    @property
    def predicted_seconds(self) -> float:
        """What a run was predicted to take, over the link that it is made over; known from the first one on."""
        plan, executor = self._layout.plan, self._executor
        if executor is not None and (self._layout.link is not None or (executor.overlaps and plan.timeline is None)):
            return executor.predicted_seconds  # neither the link nor such states are the plan's
        return plan.timeline.seconds if plan.timeline and self.overlaps else plan.prediction.seconds

    def last_copies(self) -> tuple[tuple[str, int], ...]:
        """Direction (``cpu->cuda:0``) and bytes of every copy between devices that the last run made."""
        made = () if self._executor is None else self._executor.copied
        return tuple((f"{copy.source}->{copy.target}", copy.nbytes) for copy in made)

    def times(self) -> list[TaskTimes]:
        """What the last run did and when, by the begins; nothing unless the session was opened with ``record``."""
        return [] if self._executor is None else self._executor.times()

    def end_node_profiles(self) -> dict[int, list[dict[str, Any]]]:
        """ONNX Runtime's events of nodes by partition, where the session options ask for profiles: they end here."""
        return node_events(self._sessions)

    def called_events(self) -> dict[int, list[dict[str, Any]]]:
        """Events of what PyTorch ran in the last run, by partition; no profile ends for them."""
        return called_events(self._sessions)

    def makers(self, partition: int) -> dict[str, str]:
        """The op that makes each value within a partition, both by name, where runs are noted."""
        import onnx

        nodes = onnx.load_model_from_string(self._models[partition]).graph.node if self._models else ()
        return {value: node.name for node in nodes for value in node.output}

    def held_memory(self, bundle: Bundle, watch: ValueWatch) -> dict[str, HeldMemory]:
        """What runs of this session held on every device, where its options ask for profiles: they end here.

        Nothing where ONNX Runtime's profiles do not tell of memory, which they do since 1.28.

        Args:
            bundle: What it runs. No other session in this process may have the same weights mapped.
            watch: What it was opened to ``record`` with.
        """
        events = self.end_node_profiles()
        arenas = [
            NO_ARENA
            if isinstance(session, CalledSession)
            else ArenaUse.of(events.get(place, ()), session.get_providers()[0])
            for place, session in enumerate(self._sessions)
        ]
        return held_memory(self._layout, arenas, mapped_bytes(bundle, self._weights), watch)

    def write_trace(
        self, path: str | PathLike[str], nodes: Mapping[int, Sequence[dict[str, Any]]] | None = None
    ) -> None:
        """Write the last run to ``path`` in Chrome's trace format, for Perfetto.

        Args:
            path: The file.
            nodes: What ``end_node_profiles`` gave, where it was called already.

        Raises:
            ExecutionError: There was no run, or nothing of it was noted.
        """
        self._require_open()
        if self._record is None:
            raise ExecutionError(
                "this session notes nothing of its runs", hint="open it with record=True, run it, then write the trace"
            )
        if self._executor is None:
            raise ExecutionError("there is no run to write a trace of", hint="run the session first")
        found = self.end_node_profiles() if nodes is None else nodes
        write_trace(Path(path), self._layout, self.times(), found, emulated=self.emulate)
