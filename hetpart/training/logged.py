# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Lines of what the calls of a step cost."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hetpart.runtime.log import log_run
from hetpart.runtime.profiles import profiling_options
from hetpart.training.updates import UPDATE_OP

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.runtime.session import Session

Nodes = dict[int, list[dict[str, Any]]]
"""Events of kernels, by partition."""
_TOLD = 2
"""The call whose kernels are told. The first takes longer for what it sets up, and a profile can be ended only once."""


def _without_updates(nodes: Nodes) -> Nodes:
    """Where several calls make one update the others run its op, which does nothing."""
    return {
        part: [event for event in events if not event["name"].startswith(UPDATE_OP)] for part, events in nodes.items()
    }


class CallLog:
    """Logs every call of a step, and of one what kernels took: the profile slows them down, and ends there."""

    def __init__(self) -> None:
        folder = mkdtemp(prefix="hetpart-")
        self.options: onnxruntime.SessionOptions = profiling_options(Path(folder))
        """What the session is to be opened with."""
        self._calls = 0
        self._clear = finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def tell(self, session: Session, *, updated: bool) -> None:
        """Log the last run of ``session``, and nothing of updates where none was made."""
        self._calls += 1
        ends = self._calls == _TOLD
        nodes = session.end_node_profiles() if ends else session.called_events()
        log_run(session, nodes if updated else _without_updates(nodes))
        if ends:
            self._clear()
