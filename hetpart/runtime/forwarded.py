# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Calls of ``onnxruntime.InferenceSession`` that the sessions of all partitions answer together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetpart.errors import InvalidOptionError
from hetpart.runtime.profiles import merged_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime

    from hetpart.plan.model import Plan
    from hetpart.runtime.sessions import PartSession


class ForwardedCalls:
    """What is asked of every partition's session."""

    plan: Plan
    _sessions: Sequence[PartSession]

    def _require_open(self) -> None: ...

    def end_profiling(self) -> str:
        """The file with the profiles of all partitions, in Chrome's trace format; ``""`` where none was asked for.

        Raises:
            ExecutionError: the session is closed.
        """
        self._require_open()
        return merged_profile(self.plan, self._sessions)

    def get_profiling_start_time_ns(self) -> int:
        """When the first profile began, in nanoseconds of the clock that ONNX Runtime profiles by: their time 0."""
        return min((session.get_profiling_start_time_ns() for session in self._sessions), default=0)

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """Which provider got which nodes, one partition after another.

        The session options must ask for it: ``session.record_ep_graph_assignment_info`` is ``"1"``.
        """
        return [part for session in self._sessions for part in session.get_provider_graph_assignment_info()]

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Let go of a captured CUDA graph in every partition that has one."""
        for session in self._sessions:
            session.release_captured_graph(graph_annotation_id)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> onnxruntime.OrtValue:
        """An OrtValue of undefined content on a device, which every call takes."""
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(
            list(shape), element_type, device_type, device_id, vendor_id
        )

    def disable_fallback(self) -> None:
        """Nothing to disable: a partition runs on the device that it is planned for, or fails."""

    def enable_fallback(self) -> None:
        """Refused: a plan that fails on its devices fails.

        Raises:
            InvalidOptionError: always.
        """
        raise InvalidOptionError(
            "a partition runs on the device that it is planned for: there is nothing to fall back to",
            hint="partition with --budget 0 for a plan of the host alone",
        )

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Refused: the plan says where every op runs.

        Raises:
            InvalidOptionError: always.
        """
        del provider_options
        raise InvalidOptionError(
            f"the plan says where every op runs, and cannot be moved to {providers!r}",
            hint="partition again, or open the bundle with provider='cuda:0=NAME' for another provider of that device",
        )
