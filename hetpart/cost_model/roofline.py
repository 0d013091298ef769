"""Work × Device → seconds: the slower of arithmetic and memory, after the launches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetpart.cost_model.work import Work
from hetpart.devices import Device

VIEW_SECONDS = 3e-7
"""What ONNX Runtime's executor takes to visit a node that starts no kernel, such as a Reshape in place."""
DEFAULT_DTYPE = "float32"


class Bound(StrEnum):
    """What an op's time is made of, mostly."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds, and what bounds them."""

    seconds: float
    bound: Bound


def flops_rate(device: Device, dtype: str) -> float:
    """Flops per second a well-shaped kernel of ``dtype`` reaches."""
    peak = device.peak_flops.get(dtype) or device.peak_flops[DEFAULT_DTYPE]
    return peak * device.efficiency


def stream_rate(device: Device) -> float:
    """Bytes per second a streaming kernel reaches."""
    return device.bandwidth * device.bandwidth_efficiency


def balance(device: Device, dtype: str) -> float:
    """Flops per byte above which an op is compute-bound on ``device``."""
    return flops_rate(device, dtype) / stream_rate(device)


def estimate(work: Work, device: Device, dtype: str) -> Estimate:
    """Seconds ``work`` takes on ``device``, and which roof it meets."""
    arithmetic = work.flops / flops_rate(device, dtype)
    streamed = max(0, work.bytes_moved - work.bytes_scattered)
    memory = streamed / stream_rate(device) + work.bytes_scattered / device.random_bandwidth
    launch = work.launches * device.launch_seconds or VIEW_SECONDS
    roof = max(arithmetic, memory)
    if launch >= roof:
        return Estimate(launch + roof, Bound.LAUNCH)
    return Estimate(launch + roof, Bound.COMPUTE if arithmetic >= memory else Bound.MEMORY)
