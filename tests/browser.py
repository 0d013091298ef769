"""A headless Chromium, driven through its own debugging pipe: no driver, no port, no package."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.chromium import environment, found

_FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars", "--mute-audio", "--no-zygote",
)  # fmt: skip
_READ, _WRITE, _ERRORS = 3, 4, 2
_PATIENCE = 60.0
"""Seconds without a word from the browser, after which a test fails rather than hangs."""


@dataclass
class Browser:
    """A running browser. Events that no one asked for yet are kept."""

    reads: int
    writes: int
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _buffer: bytes = b""
    _number: int = 0

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The result of one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def wait(self, method: str, session: str) -> dict[str, Any]:
        """The next event of this kind, told already or not."""
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    self.events.remove(event)
                    return event["params"]
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self.reads], [], [], _PATIENCE)
            assert ready, "the browser says nothing"
            got = os.read(self.reads, 1 << 20)
            assert got, "the browser ended"
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def page(self) -> Page:
        """A new page whose errors, messages and requests are noted from the start."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        return Page(self, session)


@dataclass
class Page:
    """One page of a browser."""

    browser: Browser
    session: str

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def open(self, path: Path) -> None:
        """Load a file, and wait until all of it ran."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait("Page.loadEventFired", self.session)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, scheme: str, media: str = "screen") -> None:
        """``light`` or ``dark``; ``print`` as media."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def press(self, key: str, *, shift: bool = False) -> None:
        """One key, by its name or its character."""
        code, text = _KEYS.get(key, (ord(key.upper()[0]), key))
        down = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            **down,
            **({"text": text} if text else {}),
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **down)

    def write(self, text: str) -> None:
        for character in text:
            self.press(character)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        from base64 import b64decode

        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(b64decode(taken["data"]))

    def complaints(self) -> list[str]:
        """Exceptions, errors and warnings up to now, policy violations among them."""
        self.value("1")
        said: list[str] = []
        for event in self._events():
            match event["method"], event["params"]:
                case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                    said.append(str(details))
                case "Log.entryAdded", {"entry": entry}:
                    said.append(entry["text"])
                case "Runtime.consoleAPICalled", {"type": kind, "args": words}:
                    said.append(f"{kind}: {words}")
                case _:
                    pass
        return said

    def requests(self) -> list[str]:
        """The addresses of all that was asked for."""
        self.value("1")
        return [
            event["params"]["request"]["url"]
            for event in self._events()
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _events(self) -> Iterator[dict[str, Any]]:
        return (event for event in self.browser.events if event.get("sessionId") == self.session)


_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "Escape": (27, ""), "Backspace": (8, ""),
         "ArrowRight": (39, ""), "ArrowDown": (40, "")}  # fmt: skip


@contextmanager
def running(flags: Sequence[str] = ()) -> Generator[Browser]:
    """A browser with a profile of its own, which goes with it."""
    with TemporaryDirectory(prefix="hetpart-chromium-", ignore_cleanup_errors=True) as profile:
        ours_in, theirs_out = _pipe()
        theirs_in, ours_out = _pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, _READ),
            (os.POSIX_SPAWN_DUP2, theirs_out, _WRITE),
            (os.POSIX_SPAWN_OPEN, _ERRORS, os.devnull, os.O_WRONLY, 0),
        ]
        binary = found()
        assert binary is not None, "there is no Chromium: `make test` installs one, `python -m tools.chromium` too"
        arguments = [str(binary), *_FLAGS, *flags, f"--user-data-dir={profile}"]
        process = os.posix_spawn(
            binary, arguments, environment(binary) | {"HOME": profile}, file_actions=actions, setpgroup=0
        )
        os.close(theirs_in)
        os.close(theirs_out)
        browser = Browser(ours_in, ours_out)
        try:
            yield browser
        finally:
            with suppress(OSError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(ours_in)
            os.close(ours_out)


def _pipe() -> tuple[int, int]:
    """Ends that are not among the numbers the browser gets its own under."""
    low = os.pipe()
    high = tuple(fcntl(end, F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]
