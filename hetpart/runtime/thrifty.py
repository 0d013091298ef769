# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Thrifty sessions, as the cost model calls them: they take no more memory than they need.

They give every buffer back as soon as nothing reads it any more. By itself ONNX Runtime keeps buffers for later values
of their shapes, and lays out a block of them all beside what its first run took.

And on the CPU provider their arenas hand out what is asked for. By itself an arena gives a free chunk away whole unless
it is twice that. How much it may give away can be said of allocators alone that all sessions of a process share. ONNX
Runtime has one of a kind, the last that was registered, and a session keeps the one that it finds while it is made: so
the sessions of a plan, which are made side by side, get one that no others ever get; where ONNX Runtime's profile is to
count what each holds, every session gets its own, one after another.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import TYPE_CHECKING

from hetpart.cost_model.memory import ALIGNMENT
from hetpart.devices import Provider

if TYPE_CHECKING:
    import onnxruntime

_MAKING = Lock()
_EXACT = {
    "max_mem": 0,  # no limit
    "arena_extend_strategy": 0,  # regions that double: those of what is asked for leave gaps that nothing fits into
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": ALIGNMENT,
}


@contextmanager
def arena() -> Generator[None]:
    """Meanwhile thrifty sessions get one arena, which no others get. Who wants another one waits."""
    with _MAKING:
        _register()
        try:
            yield
        finally:
            _register()  # or what the sessions' arena holds would outlive them


def spared(
    options: onnxruntime.SessionOptions, provider: object, *, apart: bool = True
) -> AbstractContextManager[None]:
    """Meanwhile a session is to be made with ``options`` on ``provider`` that is thrifty.

    Its arena is its own where it is to stand ``apart``, else that of the ``arena`` there is.
    """
    options.enable_mem_pattern = options.enable_mem_reuse = False
    if provider != Provider.CPU:
        return nullcontext()
    options.add_session_config_entry("session.use_env_allocators", "1")
    return arena() if apart else nullcontext()


def _register() -> None:
    import onnxruntime

    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg(_EXACT))
