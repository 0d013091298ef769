# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Ctrl-C while the main thread is inside ONNX Runtime.

Python tells its program of a signal when the main thread is back from C, which is when the run has ended. The one
thing it does at once is to write the signal's number to its wakeup descriptor: a thread that reads there ends the run,
and the main thread, back from it, raises ``KeyboardInterrupt`` as always. All of that takes 1 µs of a run.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import cache
from threading import Event, Thread, get_ident, main_thread
from typing import TYPE_CHECKING, TypeVar

from hetpart.runtime.sessions import require_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnxruntime

_MOST_BYTES = 64
_MARK = 0
"""No signal has this number."""
_SETTLE_SECONDS = 0.5
Made = TypeVar("Made")


def stoppable_options() -> onnxruntime.RunOptions:
    """Options that a run can be ended by. An entry that says nothing new saves ONNX Runtime 90 µs of looking for it."""
    options = require_runtime().RunOptions()
    options.add_run_config_entry("gpu_graph_id", "0")
    return options


def stoppable(do: Callable[[onnxruntime.RunOptions | None], Made], options: onnxruntime.RunOptions) -> Made:
    """What ``do`` makes, with ``options`` that Ctrl-C ends it by where this is the main thread.

    Nobody else may be using them meanwhile. A program that handles Ctrl-C in its own way is left to it.

    Raises:
        KeyboardInterrupt: it came, and nothing is under way any more.
    """
    if get_ident() != main_thread().ident:
        return do(None)
    watcher = _watcher()
    options.terminate = False
    try:
        watcher.arm(options)
        try:
            return do(options)
        finally:
            watcher.disarm()
    except BaseException as error:
        watcher.settle()
        if options.terminate and isinstance(error, Exception):
            raise KeyboardInterrupt from error
        raise


def note_during(pressed: KeyboardInterrupt, what: str) -> None:
    """Tell in ``pressed`` what was under way when it came."""
    pressed.add_note(f"Ctrl-C came during {what}")


class _Watcher:
    """The thread that reads what signals came. There is one in a process."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._options: onnxruntime.RunOptions | None = None
        self._earlier = -1
        """The descriptor of somebody else, such as asyncio's."""
        self._settled = Event()
        Thread(target=self._listen, name="hetpart Ctrl-C", daemon=True).start()

    def arm(self, options: onnxruntime.RunOptions) -> None:
        """Let Ctrl-C end what runs with ``options``."""
        self._options = options
        earlier = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if earlier != self._write:  # as it is after a Ctrl-C that came while another was dealt with
            self._earlier = earlier

    def disarm(self) -> None:
        """Let it end nothing any more."""
        signal.set_wakeup_fd(self._earlier, warn_on_full_buffer=False)
        self._options = None

    def settle(self) -> None:
        """Disarm, and return when all that came has been read: none of it may end a later run."""
        self.disarm()
        self._settled.clear()
        os.write(self._write, bytes([_MARK]))
        self._settled.wait(_SETTLE_SECONDS)

    def _listen(self) -> None:
        while True:
            heard, options = os.read(self._read, _MOST_BYTES), self._options
            if options is not None and signal.SIGINT in heard and _raises():
                options.terminate = True
            self._pass_on(heard.replace(bytes([_MARK]), b""))
            if _MARK in heard:
                self._settled.set()

    def _pass_on(self, heard: bytes) -> None:
        """Whoever had the descriptor before hears of all signals too."""
        if heard and self._earlier != -1:
            with suppress(OSError):
                os.write(self._earlier, heard)


def _raises() -> bool:
    """Whether Ctrl-C is going to be a ``KeyboardInterrupt``."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


_watcher = cache(_Watcher)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.cache_clear)  # threads do not go on in a child
