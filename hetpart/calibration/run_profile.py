"""What ONNX Runtime's profile of a session says of the CPU provider's kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec

from hetpart.calibration.profiled_calls import REORDERS, ProfiledKernel, Tensor
from hetpart.devices import Provider
from hetpart.errors import InvalidOptionError

_KERNEL, _RUN = "_kernel_time", "model_run"
_IMAGE, _BLOCK = 4, 16
"""Axes of images, and the most channels that MLAS puts in one block (``MlasNchwcGetBlockSize``)."""
_PROFILE_HINT = "a session with `enable_profiling` writes one, which is whole after `session.end_profiling()`"


_Shapes = list[dict[str, list[Annotated[int, msgspec.Meta(ge=0)]]]]


class _Arguments(msgspec.Struct):
    """What a kernel's event says of it."""

    op_name: str = ""
    provider: str = ""
    node_index: str = ""
    parameter_size: str = "0"
    input_type_shape: _Shapes = msgspec.field(default_factory=_Shapes)
    output_type_shape: _Shapes = msgspec.field(default_factory=_Shapes)
    thread_scheduling_stats: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Event(msgspec.Struct):
    cat: str = ""
    name: str = ""
    tid: int = 0
    dur: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


@dataclass(frozen=True, slots=True)
class RunProfile:
    """What ONNX Runtime wrote of the CPU provider's kernels."""

    kernels: tuple[ProfiledKernel, ...]
    """In the order they ran."""
    threads: int | None
    """``None`` where the profile does not tell."""
    runs: int
    in_parallel: bool
    """Whether the session ran kernels in other threads than the one that asked for the run."""

    @property
    def convolutions_out_of_blocks(self) -> int:
        """Of images with channels for whole blocks, where no kernel brings channels into blocks or out of them."""
        if any(kernel.op_type in REORDERS for kernel in self.kernels):
            return 0
        return sum(map(_fills_blocks, self.kernels))


def read_profile(path: Path) -> RunProfile:
    """The CPU provider's kernels in a profile, each with its median over all runs but the first.

    Raises:
        InvalidOptionError: it cannot be read, or is no profile.
    """
    try:
        events = msgspec.json.decode(path.read_bytes(), type=list[_Event])
        kernels = _kernels(events)
    except OSError as error:
        raise InvalidOptionError(f"the profile {path} cannot be read: {error.strerror}", hint=_PROFILE_HINT) from error
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidOptionError(
            f"{path} is no profile that ONNX Runtime wrote: {error}", hint=_PROFILE_HINT
        ) from error
    if not kernels:
        raise InvalidOptionError(f"{path} speaks of no kernel of the CPU provider", hint=_PROFILE_HINT)
    threads = max((n for n in map(_event_threads, events) if n is not None), default=None)
    runs = [event.tid for event in events if event.cat == "Session" and event.name == _RUN]
    in_parallel = any(event.tid not in runs for event in events if _is_kernel(event))
    return RunProfile(kernels, threads, len(runs), in_parallel)


def _is_kernel(event: _Event) -> bool:
    return event.cat == "Node" and event.name.endswith(_KERNEL) and event.args.provider == Provider.CPU


def _fills_blocks(kernel: ProfiledKernel) -> bool:
    """Whether ONNX Runtime's optimiser lays the convolution out in blocks on every processor that has them."""
    images = (*kernel.inputs[:1], *kernel.outputs)
    return kernel.op_type in {"Conv", "FusedConv"} and all(
        tensor.dtype == "float32" and len(tensor.shape) == _IMAGE and not tensor.shape[1] % _BLOCK for tensor in images
    )


@dataclass(slots=True)
class _Node:
    """A node's events as they are met."""

    arguments: _Arguments
    seconds: list[float] = field(default_factory=list[float])

    def kernel(self) -> ProfiledKernel:
        """The first run allocates what later ones find, and does not count where there are others."""
        said = self.arguments
        inputs, outputs = _tensors(said.input_type_shape), _tensors(said.output_type_shape)
        seconds = median(self.seconds[1:] or self.seconds)
        return ProfiledKernel(said.op_name, inputs, outputs, int(said.parameter_size), seconds)


def _kernels(events: Sequence[_Event]) -> tuple[ProfiledKernel, ...]:
    nodes: dict[tuple[str, str], _Node] = {}
    for event in events:
        if _is_kernel(event):
            node = nodes.setdefault((event.args.node_index, event.name), _Node(event.args))
            node.seconds.append(event.dur * 1e-6)
    return tuple(node.kernel() for node in nodes.values())


def _tensors(said: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(Tensor.of(dtype, tuple(shape)) for one in said for dtype, shape in one.items())


def _event_threads(event: _Event) -> int | None:
    """Threads of the pool that ran a kernel; one without a pool is told by an empty text."""
    said = bytes(event.args.thread_scheduling_stats)
    if not said:
        return None
    # All threads that had nothing to do have one name, so that a mapping would hold one of them.
    return 1 + said.count(b'"num_run"')
