"""What this machine is: its processor, its memory, and the GPU its driver names."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hetpart.devices import CHANNEL_BLOCK

MIB = 2**20
NARROW_BLOCK = 8
"""Of processors of the same instructions without AVX-512: ``NchwcBlockSize`` in MLAS's ``platform.cpp``."""
DRIVER_TIMEOUT_SECONDS = 10
CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL_CACHE_BYTES = {2: 2**20, 3: 2**24}
MEMINFO = Path("/proc/meminfo")
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True)
class Processor:
    """This machine's processor."""

    name: str
    """As it calls itself; ``""`` where it does not."""
    cores: int
    """Physical cores this process may use: two threads of one core count once."""
    memory_bytes: int | None
    avx512: bool = False
    """Whether it computes on 512 bits at once, which doubles its rate of arithmetic."""
    amx: bool = False
    """Whether it multiplies tiles of matrices, as Xeons do since Sapphire Rapids."""
    channel_block: int = CHANNEL_BLOCK
    """Channels of images that ONNX Runtime lays out and computes together on it."""
    family: str = ""
    """Its maker and the maker's numbers of its kind, as ``AuthenticAMD family 26 model 2``.

    A virtual machine's name may tell nothing.
    """

    @property
    def kind(self) -> str:
        """What tells it from processors that compute at other rates: its name and its family."""
        return f"{self.name or 'unnamed'} {self.family}".strip()


@dataclass(frozen=True, slots=True)
class DriverGpu:
    """A GPU as its driver describes it."""

    name: str
    memory_bytes: int
    free_bytes: int


@cache
def this_processor() -> Processor:
    """The processor this process runs on."""
    cpuinfo = _read(CPUINFO)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    siblings, cores = _field(cpuinfo, "siblings"), _field(cpuinfo, "cpu cores")
    per_core = int(siblings) // max(1, int(cores)) if siblings and cores else 1
    flags = _field(cpuinfo, "flags").split()
    memory = re.search(r"MemTotal:\s+(\d+) kB", _read(MEMINFO))
    return Processor(
        name=_field(cpuinfo, "model name"),
        cores=max(1, threads // max(1, per_core)),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        avx512="avx512f" in flags,
        amx="amx_tile" in flags,
        channel_block=NARROW_BLOCK if "sse2" in flags and "avx512f" not in flags else CHANNEL_BLOCK,
        family=_family(cpuinfo),
    )


def cache_bytes(level: int) -> int:
    """Bytes of the first processor's cache of this level; ``USUAL_CACHE_BYTES`` where the system does not tell."""
    for folder in CACHES.glob("index*"):
        size = _read(folder / "size").strip()
        if _read(folder / "level").strip() == str(level) and size.endswith("K"):
            return int(size[:-1]) * 1024
    return USUAL_CACHE_BYTES[level]


def driver_gpus() -> tuple[DriverGpu, ...]:
    """GPUs the NVIDIA driver answers for; none where there is no driver or it does not answer in time."""
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, timeout=DRIVER_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_driver_answer(answer.stdout)


def parse_driver_answer(text: str) -> tuple[DriverGpu, ...]:
    """GPUs in what ``nvidia-smi`` printed: one line of name, total MiB and free MiB each. Other lines are left out."""
    rows = (re.fullmatch(r"\s*(.+?)\s*,\s*(\d+)\s*,\s*(\d+)\s*", line) for line in text.splitlines())
    return tuple(DriverGpu(row[1], int(row[2]) * MIB, int(row[3]) * MIB) for row in rows if row)


def _family(cpuinfo: str) -> str:
    """Of the first processor that ``/proc/cpuinfo`` lists; ``""`` where it names no maker, as on Arm."""
    numbers = [_field(cpuinfo, name) for name in ("vendor_id", "cpu family", "model")]
    return "{} family {} model {}".format(*numbers) if all(numbers) else ""


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
