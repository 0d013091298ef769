"""Work × Device → seconds: the slower of arithmetic and memory, after the launches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetpart.cost_model.work import Work
from hetpart.devices import Device

VISIT_SECONDS = 3e-7
"""What ONNX Runtime's executor takes to visit a node that starts no kernel, such as a Reshape in place."""
CALL_SECONDS = 3e-5
"""What it takes to call an operator of PyTorch's from Python: 34 updates of 64 parameters took 1.1 ms on a processor
of 4.4 GHz."""
DEFAULT_DTYPE = "float32"


class Bound(StrEnum):
    """What an op's time is made of, mostly."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of one op on one device, and what bounds them."""

    seconds: float
    bound: Bound
    intensity: float
    """Flops per byte the op moves there."""
    bytes_moved: int
    """Read and written there, without what fusion saves."""
    balance: float
    """Flops per byte above which it would be compute-bound there."""
    scattered: bool = False
    """Whether its bytes take their time for lying in scattered rows."""


def flops_rate(device: Device, dtype: str) -> float:
    """Flops per second a well-shaped kernel of ``dtype`` reaches."""
    peak = device.peak_flops.get(dtype) or device.peak_flops[DEFAULT_DTYPE]
    return peak * device.efficiency


def stream_rate(device: Device) -> float:
    """Bytes per second a streaming kernel reaches."""
    return device.bandwidth * device.bandwidth_efficiency


def visit_seconds(device: Device) -> float:
    """Of a node that computes nothing: as measured, or no more than what a kernel's start takes."""
    return device.rates.visit_seconds if device.rates else min(VISIT_SECONDS, device.launch_seconds)


def _one_by_one(work: Work, device: Device) -> float:
    """Seconds of what a processor computes element by element."""
    return (work.serial_cycles + work.spread_cycles / device.cores) / device.clock if device.clock else 0.0


def estimate(work: Work, device: Device, dtype: str, *, visited: bool = True, called: bool = False) -> Estimate:
    """Seconds ``work`` takes on ``device``, and which roof it meets.

    An op without launches is ``visited``, if it is a node of its own; one that PyTorch runs is ``called`` first.
    """
    computing, streaming = flops_rate(device, dtype), stream_rate(device)
    arithmetic = max(work.flops / computing, _one_by_one(work, device))
    moved = work.bytes_moved
    streamed = max(0, moved - work.bytes_scattered) / streaming
    scattered = work.bytes_scattered / device.random_bandwidth
    memory = streamed + scattered
    overhead = (work.launches * device.launch_seconds or visited * visit_seconds(device)) + (
        CALL_SECONDS if called else 0.0
    )
    roof = max(arithmetic, memory)
    slower = Bound.COMPUTE if arithmetic >= memory else Bound.MEMORY
    return Estimate(
        seconds=overhead + roof,
        bound=Bound.LAUNCH if overhead >= roof else slower,
        intensity=work.intensity,
        bytes_moved=moved,
        balance=computing / streaming,
        scattered=scattered > streamed,
    )
