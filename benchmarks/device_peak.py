"""What a process takes of an NVIDIA device, as its driver counts it from outside."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import TypeVar

MEBIBYTE = 2**20
_QUERY = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
_EVERY_MILLISECONDS = "20"
Made = TypeVar("Made")


@dataclass(slots=True)
class Peak:
    """Bytes in use of the device: before, and most since. The driver tells whole mebibytes."""

    before: int
    most: int

    @property
    def grown(self) -> int:
        return self.most - self.before


def device_answers() -> bool:
    """Whether NVIDIA's driver is there and knows a device."""
    command = shutil.which("nvidia-smi")
    return command is not None and subprocess.run([command, "-L"], check=False, capture_output=True).returncode == 0


def with_peak(do: Callable[[], Made]) -> tuple[Made, int]:
    """What ``do`` makes, and by how many bytes the device's use rose at most meanwhile. Nobody else may be using it."""
    with _watched() as peak:
        made = do()
    return made, peak.grown


@contextmanager
def _watched() -> Iterator[Peak]:
    """The arenas of whom is looked at give nothing back before their process ends: rare samples are enough."""
    now = int(subprocess.run(_QUERY, check=True, capture_output=True, text=True).stdout) * MEBIBYTE
    peak = Peak(now, now)
    with subprocess.Popen([*_QUERY, "-lms", _EVERY_MILLISECONDS], stdout=subprocess.PIPE, text=True) as driver:
        reader = Thread(target=_read, args=(driver, peak))
        reader.start()
        try:
            yield peak
        finally:
            driver.terminate()
            reader.join()


def _read(driver: subprocess.Popen[str], peak: Peak) -> None:
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.strip().isdigit():
            peak.most = max(peak.most, int(line) * MEBIBYTE)
