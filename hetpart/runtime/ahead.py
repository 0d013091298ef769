"""Runs that ask a CUDA device for work ahead: its copies and partitions wait for each other there, not on the host.

A task of the device has been asked for when it ends, and streams that need it wait for its event. The host waits for
what it reads: copies to it, and partitions with values on it, end when they are done. A run is over when every stream
has done all that it was asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.devices import HOST, Provider
from hetpart.errors import DeviceUnavailableError
from hetpart.graph.calls import is_called
from hetpart.plan.model import ValueForm
from hetpart.runtime.cuda_streams import CudaDriver, StreamMemory
from hetpart.runtime.stream_order import stream_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetpart.plan.bundle import Bundle
    from hetpart.runtime.frame import Layout
    from hetpart.runtime.tasks import Task, TaskGraph

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The devices of a plan that are asked for work ahead."""

    memories: Mapping[str, StreamMemory]
    """By device; none where no run of the plan can do so."""
    why_not: str = ""
    """Why there are none."""

    @property
    def streams(self) -> dict[str, int]:
        """The compute streams, by device: all partitions of one share it."""
        return {device: memory.compute for device, memory in self.memories.items()}


def ask_ahead(bundle: Bundle, refused: Mapping[str, bool]) -> Ahead:
    """The CUDA devices that a plan uses, with streams, where its runs can ask ahead; why not is logged.

    Args:
        bundle: What is to run.
        refused: What keeps its session from it, and whether that is so.
    """
    plan = bundle.plan
    devices = [device for device in plan.used_devices if device != plan.devices[HOST].device]
    if not devices:
        return Ahead({}, "the plan uses no accelerator")
    why_not = next((why for why, is_so in refused.items() if is_so), "") or _why_not(bundle)
    try:
        ahead = Ahead({} if why_not else {device: _memory(device) for device in devices}, why_not)
    except DeviceUnavailableError as error:
        ahead = Ahead({}, error.message)
    if not ahead.memories:
        _LOG.info("every copy and partition on %s is waited for: %s", ", ".join(devices), ahead.why_not)
    return ahead


def _memory(device: str) -> StreamMemory:
    number = int(device.partition(":")[2] or 0)
    return StreamMemory(number, CudaDriver(number))


def _why_not(bundle: Bundle) -> str:
    """What of a plan streams alone cannot keep in order."""
    plan = bundle.plan
    if any(map(is_called, bundle.models)):
        return "PyTorch runs a partition"
    host = plan.devices[HOST].device
    others = {use.device for use in plan.devices if use.device in plan.used_devices and use.device != host}
    if any(plan.device(device).provider != Provider.CUDA for device in others):
        return "an accelerator is not CUDA's"
    if any(host not in (copy.source, copy.target) for copy in plan.transfers):
        return "values go from one accelerator to another"
    specs = {spec.name: spec for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    touched = (name for part in plan.partitions if part.device in others for name in (*part.inputs, *part.outputs))
    unknown = next((name for name in touched if specs[name].form is not ValueForm.STATIC), None)
    return "" if unknown is None else f"only a run tells the size of {unknown!r}, which an accelerator reads or makes"


class Streams:
    """The tasks of a plan, each behind those it needs.

    Args:
        layout: Of the plan, some of whose memories are ``StreamMemory``.
        graph: Its tasks.
    """

    def __init__(self, layout: Layout, graph: TaskGraph) -> None:
        self._at = [_stream(layout, task) for task in graph.tasks]
        names = [None if at is None else f"{at[0].device_id} {at[1]}" for at in self._at]
        settled = frozenset(
            number for number, task in enumerate(graph.tasks) if self._at[number] and _is_settled(layout, task)
        )
        order = stream_order(graph, names, settled)
        self._waits, self._settled = order.waits, {task for task in settled if not graph.tasks[task].is_copy}
        memories = {task: at[0] for task, at in enumerate(self._at) if at is not None}
        self._events = {task: memories[task].driver.event() for task in sorted(order.recorded)}
        self._memories = {id(memory): memory for memory in memories.values()}.values()

    @classmethod
    def of(cls, layout: Layout, graph: TaskGraph) -> Streams | None:
        """``None`` for a plan that asks nothing ahead."""
        ahead = any(isinstance(memory, StreamMemory) for memory in layout.memories.values())
        return cls(layout, graph) if ahead else None

    def ordered(self, do: Callable[[int], None]) -> Callable[[int], None]:
        """``do``, which does the task of a number or asks for it, behind what the task needs."""

        def in_order(task: int) -> None:
            at = self._at[task]
            if at is None:
                do(task)
                return
            memory, stream = at
            for first in self._waits[task]:
                memory.driver.wait(stream, self._events[first])
            do(task)
            if task in self._events:
                memory.driver.record(self._events[task], stream)
            if task in self._settled:
                memory.driver.settle(self._events[task])

        return in_order

    def finish(self) -> None:
        """Return when every stream has done all that it was asked for."""
        for memory in self._memories:
            for stream in (memory.copies_in, memory.compute, memory.copies_out):
                memory.driver.finish(stream)


def _stream(layout: Layout, task: Task) -> tuple[StreamMemory, int] | None:
    """The device and the stream of a task; ``None`` for work of the host."""
    if not task.is_copy:
        memory = layout.memories[layout.plan.partitions[task.index].device]
        return (memory, memory.compute) if isinstance(memory, StreamMemory) else None
    copy = layout.plan.transfers[task.index]
    memory = layout.far_end(copy)
    if not isinstance(memory, StreamMemory):
        return None
    return memory, memory.copies_out if copy.target == layout.host else memory.copies_in


def _is_settled(layout: Layout, task: Task) -> bool:
    """Whether the host waits for a task of a device before it ends: what it makes is read there."""
    plan = layout.plan
    if task.is_copy:
        return plan.transfers[task.index].target == layout.host
    return bool(plan.partitions[task.index].host_outputs)
