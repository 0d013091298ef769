"""What runs a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetpart.cost_model.memory import Scratch
from hetpart.devices import Provider


@dataclass(frozen=True, slots=True)
class Lane:
    """What runs a session."""

    provider: Provider
    threads: int = 1
    scratch: Mapping[int, Scratch] = field(default_factory=dict[int, Scratch])
    """What kernels take while they run, by op: ``kernel_scratch``, where memory is asked for."""
    thrifty: bool = False
    """Whether buffers go back to the arena as soon as nothing reads them any more."""
