"""What runs a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.layout import Blocks
from hetpart.devices import Device, Provider


@dataclass(frozen=True, slots=True)
class Lane:
    """What runs a session."""

    provider: Provider
    threads: int = 1
    scratch: Mapping[int, Scratch] = field(default_factory=dict[int, Scratch], hash=False)
    """What kernels take while they run, by op: ``kernel_scratch``, where memory is asked for."""
    thrifty: bool = False
    """Whether buffers go back to the arena as soon as nothing reads them any more."""
    blocks: Blocks = field(default_factory=Blocks)
    """In which the CPU provider computes the channels of images."""


def lane_of(device: Device, *, thrifty: bool = False) -> Lane:
    """What runs a session on ``device``, what its kernels take left out."""
    return Lane(device.provider, device.threads, thrifty=thrifty, blocks=Blocks(device.channel_block))
