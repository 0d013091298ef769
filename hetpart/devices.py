"""What a machine is made of: devices, the links between them, and both together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from hetpart.rates import KernelRates

HOST, ACCELERATOR = 0, 1
"""Indices in ``Machine.devices``: graph inputs are made on the host and outputs are used there."""
CHANNEL_BLOCK = 16
"""Channels of images that the CPU provider computes together, where a processor is not known to compute fewer."""


class Provider(StrEnum):
    """The ONNX Runtime execution provider that runs a device's partitions."""

    CPU = "CPUExecutionProvider"
    CUDA = "CUDAExecutionProvider"


@dataclass(frozen=True, slots=True)
class Device:
    """One memory space with the provider that computes in it. Rates are per second, sizes in bytes."""

    name: str
    """``cpu`` or ``cuda:0``: what pins, budgets and plans call it."""
    model: str
    """The exact profile name, such as ``h100-sxm``."""
    provider: Provider
    memory_bytes: int
    peak_flops: dict[str, float]
    """Peak arithmetic rate per dtype. A dtype that is missing runs at the rate of ``float32``."""
    bandwidth: float
    random_bandwidth: float
    """Bytes/s that scattered row reads reach, as in an embedding lookup."""
    launch_seconds: float
    """Fixed cost of starting one operator."""
    session_seconds: float = 0.0
    """Fixed cost of running one partition."""
    session_bytes: int = 0
    """Device memory one ONNX Runtime session takes beyond weights and activations."""
    efficiency: float = 1.0
    """Share of peak arithmetic a well-shaped kernel reaches."""
    bandwidth_efficiency: float = 1.0
    threads: int = 0
    """Threads per lane; 0 leaves the choice to ONNX Runtime."""
    clock: float = 0.0
    """Cycles/s of one core; 0 where kernels run on thousands of them."""
    cores: int = 1
    cache_bytes: int = 0
    """Of the last cache, that a run may fill; 0 where nothing is known of it."""
    cache_bandwidth: float = 0.0
    """Bytes/s that all cores together read from it."""
    channel_block: int = CHANNEL_BLOCK
    """Channels of images that the CPU provider lays out and computes together."""
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """Where each figure comes from."""
    rates: KernelRates | None = None
    """What a calibration measured of this device's kernels; without one they are priced by their work."""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed copy path between two devices."""

    source: str
    target: str
    bandwidth: float
    """Bytes/s from or to pinned memory."""
    latency: float
    """Seconds before the first byte arrives."""
    pageable_bandwidth: float | None = None
    """Bytes/s from or to memory that is not pinned, which the runtime's is; ``None``: no other than ``bandwidth``."""

    @property
    def copy_bandwidth(self) -> float:
        """Bytes/s of the runtime's own copies."""
        return self.bandwidth if self.pageable_bandwidth is None else self.pageable_bandwidth


@dataclass(frozen=True, slots=True)
class Machine:
    """Devices, the host first, and the links between them."""

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    origin: str
    """How this machine was chosen, in words, for the report's first line."""

    @property
    def host(self) -> Device:
        return self.devices[HOST]

    @property
    def accelerators(self) -> tuple[Device, ...]:
        return self.devices[HOST + 1 :]

    def index(self, name: str) -> int:
        """Position of the device called ``name``. Raises KeyError where there is none."""
        for position, device in enumerate(self.devices):
            if device.name == name:
                return position
        raise KeyError(name)

    def link(self, source: str, target: str) -> Link:
        for link in self.links:
            if (link.source, link.target) == (source, target):
                return link
        raise KeyError((source, target))

    def with_threads(self, threads: int) -> Machine:
        """The same machine with ``threads`` threads on the host lane."""
        host = replace(self.host, threads=threads)
        return replace(self, devices=(host, *self.accelerators))
