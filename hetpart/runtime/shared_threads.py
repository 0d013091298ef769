"""Threads that all sessions of a process share."""

from __future__ import annotations

from functools import cache

from hetpart.errors import ExecutionError
from hetpart.runtime.refusals import ort_message
from hetpart.runtime.sessions import require_runtime


@cache
def share_threads(threads: int) -> None:
    """Let all sessions of this process that ask for it use the same threads.

    Its own threads would wake for each run of a session: a product of 16 × 768 × 768 took 185 us so, 111 with threads
    that the session before had kept awake, as in a model's next kernel.

    Raises:
        ExecutionError: the process has such threads already, of another number.
    """
    try:
        require_runtime().set_global_thread_pool_sizes(threads, 1)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        raise ExecutionError(
            f"this process cannot share {threads} threads among sessions: {ort_message(error)}",
            hint="calibrate in a process of its own: `hetpart calibrate`",
        ) from error
