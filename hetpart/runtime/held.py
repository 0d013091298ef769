# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What a plan's runs hold on every device, counted by those who hold it.

The memory of a process cannot be told apart by device where an accelerator is emulated. What can be: every partition's
session has an arena of its own, whose use ONNX Runtime notes in its profile; the system knows which parts of weight
files are mapped; buffers between partitions, states and what else lies between them are the runtime's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetpart.plan.bench import HeldMemory
from hetpart.plan.model import ResidencyState, ValueForm
from hetpart.runtime.record import RunRecord
from hetpart.runtime.values import extent

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.runtime.frame import Frame, Layout, Place

NodeEvents = Sequence[Mapping[str, Any]]
_IN_USE, _CHANGE, _PEAK, _RESERVED = "mem_bytes_in_use", "mem_in_use_delta", "mem_in_use_peak", "mem_arena_held"
"""Of a node's event, since ONNX Runtime 1.28."""


@dataclass(slots=True)
class ValueWatch(RunRecord):
    """Notes what is held outside arenas when a task of a run has ended, and nothing was let go of yet."""

    seen: list[Counter[str]] = field(default_factory=list[Counter[str]])
    """Bytes by device."""

    def watched(self, do: Callable[[int], None], frame: Frame) -> Callable[[int], None]:
        counted_elsewhere = _counted_elsewhere(frame.layout)

        def noted(task: int) -> None:
            do(task)
            self.seen.append(_loose_bytes(frame, counted_elsewhere))

        return noted

    def most(self, device: str) -> int:
        """Most bytes on a device."""
        return max((held[device] for held in self.seen), default=0)


def _counted_elsewhere(layout: Layout) -> set[Place]:
    """States, and values of unknown size that sessions allocate in their arenas."""
    states = {place for state in layout.states for place in (state.old, state.new)}
    made = (
        layout.place(partition, name)
        for partition in layout.plan.partitions
        if not layout.is_python(partition)
        for name in partition.outputs
    )
    return states | {place for place in made if layout.specs[place[0]].form is not ValueForm.STATIC}


def _loose_bytes(frame: Frame, counted_elsewhere: set[Place]) -> Counter[str]:
    found = Counter[str]()
    for place, value in list(frame.arrays.items()):  # in one step: other lanes change it meanwhile
        spec = frame.layout.specs[place[0]]
        if place not in counted_elsewhere and spec.form is not ValueForm.OPAQUE:
            found[place[1]] += spec.nbytes if spec.form is ValueForm.STATIC else extent(spec, value).nbytes
    return found


@dataclass(frozen=True, slots=True)
class ArenaUse:
    """Bytes of a session's arena by ONNX Runtime's account."""

    prepared: int
    """In use before the first node."""
    activations: int
    """Most in use besides."""
    reserved: int
    """Taken from the system by the end."""

    @classmethod
    def of(cls, events: NodeEvents, provider: str) -> ArenaUse | None:
        """From the events of nodes that ``provider`` ran; ``None`` where they tell nothing of memory.

        The peak that ONNX Runtime notes counts from the making of the session on. Where that took more than any run,
        the most that a node leaves in use is taken.
        """
        nodes = [event["args"] for event in sorted(events, key=_begin) if event["args"].get("provider") == provider]
        if not all(_PEAK in node for node in nodes):
            return None
        if not nodes:
            return cls(0, 0, 0)
        prepared = min(int(node[_IN_USE]) - int(node[_CHANGE]) for node in nodes)
        after, peak = max(int(node[_IN_USE]) for node in nodes), max(int(node[_PEAK]) for node in nodes)
        most = peak if peak > int(nodes[0][_PEAK]) else after
        return cls(prepared, most - prepared, max(int(node[_RESERVED]) for node in nodes))


NO_ARENA = ArenaUse(0, 0, 0)
"""Of a partition that PyTorch runs: results lie in the runtime's buffers, and what it takes meanwhile nobody counts."""


def _begin(event: Mapping[str, Any]) -> float:
    return event["ts"]


def held_memory(
    layout: Layout, arenas: Sequence[ArenaUse | None], mapped: Mapping[str, int], watch: ValueWatch
) -> dict[str, HeldMemory]:
    """By device; nothing where a session's arena tells nothing.

    Args:
        layout: Of the plan.
        arenas: One of every partition.
        mapped: Bytes of weights in mapped files, by device.
        watch: What saw the runs.
    """
    by_device: dict[str, list[ArenaUse]] = {device: [] for device in layout.memories}
    for partition, arena in zip(layout.plan.partitions, arenas, strict=True):
        if arena is None:
            return {}
        by_device[partition.device].append(arena)
    return {device: _held(layout, device, own, mapped.get(device, 0), watch) for device, own in by_device.items()}


def _held(layout: Layout, device: str, own: Sequence[ArenaUse], mapped: int, watch: ValueWatch) -> HeldMemory:
    resident = (r for r in layout.plan.residencies if r.device == device and r.state is not ResidencyState.STREAMED)
    prepared = sum(arena.prepared for arena in own)
    streamed = layout.streamed.addresses if device == layout.host else ()
    return HeldMemory(
        mapped=mapped + sum(layout.specs[name].nbytes for name in streamed),
        prepared=prepared,
        other_weights=max(0, sum(residency.nbytes for residency in resident) - mapped - prepared),
        activations=max((arena.activations for arena in own), default=0),
        buffers=layout.arena_bytes(device),
        states=sum(state.nbytes for state in layout.states if state.device == device),
        values=watch.most(device),
        reserved=sum(arena.reserved for arena in own),
    )
