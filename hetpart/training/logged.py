# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Lines of what the calls of a step cost."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import finalize

from hetpart.runtime.log import log_run
from hetpart.runtime.profiles import profiling_options

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.runtime.session import Session

_TOLD = 2
"""The call whose kernels are told. The first takes longer for what it sets up, and a profile can be ended only once."""


class CallLog:
    """Logs every call of a step, and of one what kernels took: the profile slows them down, and ends there."""

    def __init__(self) -> None:
        folder = mkdtemp(prefix="hetpart-")
        self.options: onnxruntime.SessionOptions = profiling_options(Path(folder))
        """What the session is to be opened with."""
        self._calls = 0
        self._clear = finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def tell(self, session: Session) -> None:
        """Log the last run of ``session``."""
        self._calls += 1
        ends = self._calls == _TOLD
        log_run(session, session.end_node_profiles() if ends else session.called_events())
        if ends:
            self._clear()
