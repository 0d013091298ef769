# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What one run of a plan works in: arenas, and for every partition a binding of its values to places in them.

A value of known size between partitions has one address for as long as the frame lives, so it is bound once. Graph
inputs are the caller's arrays and outputs are new ones in every run, so those are bound again where their address
changed; a value whose size only a run can tell, which ONNX Runtime allocates, is bound in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetpart.devices import HOST
from hetpart.plan.model import Partition, Plan, Transfer, ValueForm, ValueSpec
from hetpart.runtime.called import CalledSession
from hetpart.runtime.cuda_streams import run_copies
from hetpart.runtime.direct import DirectSession, bind_input, bind_output
from hetpart.runtime.streaming import NO_WEIGHTS, StreamedWeights
from hetpart.runtime.transport import Block, Memory, device_memory
from hetpart.runtime.values import address_of, allocate, fresh_array, fresh_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnxruntime

    from hetpart.runtime.resident import State
    from hetpart.runtime.sessions import PartSession

Place = tuple[str, str]
"""A value and the device it lies on."""
NO_PLACES: Mapping[Place, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Layout:
    """What frames of a plan have in common."""

    plan: Plan
    host: str
    specs: Mapping[str, ValueSpec]
    memories: Mapping[str, Memory]
    offsets: Mapping[Place, int]
    """Places with a fixed address, by their offset in the device's arena."""
    link: float | None = None
    """Bytes/s of an emulated link; ``None`` lets copies go as fast as memory does."""
    states: tuple[State, ...] = ()
    """What lies on its device from run to run. It is none of the plan's inputs and outputs here."""
    streamed: StreamedWeights = NO_WEIGHTS
    """Weights on the host that runs copy."""
    results: Mapping[str, Place] = field(init=False)
    """By output: where the caller finds it when a run has ended."""

    def __post_init__(self) -> None:
        sources = {spec.name: self.plan.passthrough.get(spec.name, spec.name) for spec in self.plan.outputs}
        object.__setattr__(self, "results", {name: self.home(source) for name, source in sources.items()})

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        emulate: bool,
        link: float | None = None,
        states: tuple[State, ...] = (),
        streamed: StreamedWeights = NO_WEIGHTS,
        own: Mapping[str, Memory] = MappingProxyType({}),
    ) -> Layout:
        specs = {spec.name: spec for spec in (*plan.inputs, *plan.outputs, *plan.values)}
        ends = (end for copy in plan.transfers for end in (copy.source, copy.target))
        used = {plan.devices[HOST].device, *plan.used_devices, *ends, *(buffer.device for buffer in plan.buffers)}
        used |= set(plan.homes.values())
        memories = {
            use.device: own.get(use.device)
            or device_memory(use.device, use.provider, emulate=emulate, link=link if place != HOST else None)
            for place, use in enumerate(plan.devices)
            if use.device in used
        }
        offsets = {(buffer.value, buffer.device): buffer.offset for buffer in plan.buffers}
        return cls(plan, plan.devices[HOST].device, specs, memories, offsets, link, states, streamed)

    @property
    def given(self) -> list[Place]:
        """What is there before a run begins: the caller's values and states."""
        return [*map(self.home, (spec.name for spec in self.plan.inputs)), *(state.old for state in self.states)]

    def home(self, name: str) -> Place:
        """Where the caller gives the input ``name``, or gets the output."""
        return name, self.plan.homes.get(name, self.host)

    @property
    def kept(self) -> Mapping[str, Memory]:
        """Memories of the inputs that the caller keeps elsewhere than on the host, by name."""
        homes = dict(map(self.home, (spec.name for spec in self.plan.inputs)))
        return {name: self.memories[device] for name, device in homes.items() if device != self.host}

    def is_sized(self, place: Place) -> bool:
        """Whether its size is known before a run."""
        return self.specs[place[0]].form is ValueForm.STATIC

    def arena_bytes(self, device: str) -> int:
        ends = (b.offset + b.nbytes for b in self.plan.buffers if b.device == device)
        return max(ends, default=0)

    def is_python(self, partition: Partition) -> bool:
        """Whether the partition touches what cannot be bound: then it exchanges Python objects."""
        return any(self.specs[name].form is ValueForm.OPAQUE for name in (*partition.inputs, *partition.outputs))

    def place(self, partition: Partition, name: str) -> Place:
        """Where ``partition`` reads or makes ``name``."""
        on_host = name in partition.host_inputs or name in partition.host_outputs
        return name, self.host if on_host else partition.device

    def far_end(self, transfer: Transfer) -> Memory:
        """The memory that knows how to make the copy: one end of every copy is the host, this is the other."""
        return self.memories[transfer.source if transfer.target == self.host else transfer.target]

    def seconds(self, record: Partition | Transfer) -> float:
        """What a task is predicted to take here."""
        return record.nbytes / self.link if self.link and isinstance(record, Transfer) else record.seconds


@dataclass(slots=True)
class Frame:
    """One run's worth of memory. Only one run uses it at a time."""

    layout: Layout
    stages: list[Stage]
    copies: list[Move]
    """In the plan's order."""
    blocks: dict[str, Block]
    addresses: dict[Place, int]
    arrays: dict[Place, Any] = field(default_factory=dict[Place, Any])
    """What this run holds outside the arenas: arrays, OrtValues and Python objects."""
    moving: dict[Place, int] = field(default_factory=dict[Place, int])
    """Where states of known size lie in this run."""
    stopping: bool = False
    """Whether this run is to stop."""
    options: Any = None
    """``RunOptions`` of the caller's, who may end the run by them."""
    targets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where the caller wants outputs of this run written: arrays as ``fresh_array`` would shape them, or what lies on
    the device that the output is kept on."""
    boxed: bool = False
    """Whether the caller of this run gets OrtValues."""

    @classmethod
    def of(cls, layout: Layout, sessions: list[PartSession], fixed: Mapping[Place, int] = NO_PLACES) -> Frame:
        """Memory for ``layout``; ``fixed`` are the addresses of what somebody else keeps in its place."""
        blocks = {device: memory.allocate(layout.arena_bytes(device)) for device, memory in layout.memories.items()}
        addresses = {place: blocks[place[1]].address + offset for place, offset in layout.offsets.items()}
        addresses |= {(name, layout.host): address for name, address in layout.streamed.addresses.items()}
        addresses.update(fixed)
        stages = [
            Stage.of(layout, partition, session, addresses)
            for partition, session in zip(layout.plan.partitions, sessions, strict=True)
        ]
        copies = [Move.of(layout, transfer, addresses) for transfer in layout.plan.transfers]
        return cls(layout, stages, copies, blocks, addresses)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants this run to stop: long copies look at it on their way."""
        return self.stopping or (self.options is not None and self.options.terminate)

    def address(self, place: Place) -> int:
        """Where the bytes of a value of known size lie in this run."""
        return self.addresses[place] if place in self.addresses else self.moved(place)

    def moved(self, place: Place) -> int:
        """The same, of what lies elsewhere in every run."""
        return self.moving[place] if place in self.moving else address_of(self.arrays[place])

    def new_address(self, place: Place) -> int:
        """Where a value of known size belongs that has no fixed address."""
        return self.moving[place] if place in self.moving else address_of(self.make_array(place))

    def make_array(self, place: Place) -> Any:
        """Memory for a value of known size, kept for this run: the caller's own where it gave some."""
        layout = self.layout
        spec = layout.specs[place[0]]
        made = self.targets.get(place[0]) if self.targets and place == layout.home(place[0]) else None
        if made is None:
            unboxed = place[1] == layout.host and not self.boxed
            made = fresh_array(spec) if unboxed else fresh_value(spec, layout.memories[place[1]])
        self.arrays[place] = made
        return made


@dataclass(frozen=True, slots=True)
class Move:
    """A planned copy, and what of it every run has in common."""

    transfer: Transfer
    spec: ValueSpec
    source: Place
    target: Place
    copy: Callable[[int, int, int], None]
    """From one address to another: one end of every copy is the host, the other end's memory knows how."""
    piece_bytes: int
    """Of a longer copy, which a run that is to stop makes no more of."""
    source_address: int | None
    """``None`` for a place that has no fixed one."""
    target_address: int | None

    @classmethod
    def of(cls, layout: Layout, transfer: Transfer, addresses: Mapping[Place, int]) -> Move:
        source, target = (transfer.value, transfer.source), (transfer.value, transfer.target)
        far = layout.far_end(transfer)
        copy = run_copies(far)[transfer.target == layout.host]
        spec = layout.specs[transfer.value]
        return cls(transfer, spec, source, target, copy, far.piece_bytes, addresses.get(source), addresses.get(target))


@dataclass(slots=True)
class Stage:
    """A partition, its session, and what of its binding each run must renew."""

    partition: Partition
    session: DirectSession | CalledSession
    binding: onnxruntime.IOBinding | None
    """``None`` where it exchanges Python objects."""
    renewed_inputs: list[Place]
    """Inputs of known size that lie elsewhere in every run."""
    loose_inputs: list[Place]
    """Inputs whose size only a run can tell."""
    renewed_outputs: list[Place]
    """Outputs of known size that the caller gets: a new array in every run."""
    allocated_outputs: list[tuple[int, Place]]
    """Outputs that ONNX Runtime allocates, by their position."""
    bound: dict[Place, int] = field(default_factory=dict[Place, int])
    """Addresses that renewed inputs and outputs of known size were last bound to."""
    lent: list[Place] = field(default_factory=list[Place])
    """Inputs whose values the binding refers to."""

    @classmethod
    def of(
        cls,
        layout: Layout,
        partition: Partition,
        session: PartSession,
        addresses: Mapping[Place, int],
    ) -> Stage:
        inputs = [layout.place(partition, name) for name in partition.inputs]
        outputs = [layout.place(partition, name) for name in partition.outputs]
        stage = cls(
            partition,
            session if isinstance(session, CalledSession) else DirectSession(session),
            None if isinstance(session, CalledSession) or layout.is_python(partition) else session.io_binding(),
            [place for place in inputs if place not in addresses and layout.is_sized(place)],
            [place for place in inputs if place not in addresses and not layout.is_sized(place)],
            [place for place in outputs if place not in addresses and layout.is_sized(place)],
            [(position, place) for position, place in enumerate(outputs) if not layout.is_sized(place)],
        )
        if stage.binding is not None:
            stage.bind_fixed(layout, inputs, outputs, addresses)
        return stage

    def bind_fixed(
        self, layout: Layout, inputs: list[Place], outputs: list[Place], addresses: Mapping[Place, int]
    ) -> None:
        """Bind what never moves. Every output is bound in order, so that positions in the results are known."""
        for place in inputs:
            if place in addresses:
                bind_input(self.binding, layout, place, addresses[place])
        for place in outputs:
            if place in addresses:
                bind_output(self.binding, layout, place, addresses[place])
            else:
                self.let_allocate(layout, place)

    def renew_input(self, layout: Layout, place: Place, address: int) -> None:
        """Read ``place`` from ``address`` from now on."""
        if self.bound.get(place) != address:
            bind_input(self.binding, layout, place, address)
            self.bound[place] = address

    def renew_output(self, layout: Layout, place: Place, address: int) -> None:
        """Write ``place`` to ``address`` from now on."""
        if self.bound.get(place) != address:
            bind_output(self.binding, layout, place, address)
            self.bound[place] = address

    def let_go(self, layout: Layout) -> None:
        """Keep no value alive that ONNX Runtime allocated: whoever needs it has it."""
        for _, place in self.allocated_outputs:
            self.let_allocate(layout, place)
        while self.lent:
            place = self.lent.pop()
            assert self.binding is not None
            self.binding.bind_ortvalue_input(place[0], allocate(layout.specs[place[0]], [0], layout.memories[place[1]]))

    def let_allocate(self, layout: Layout, place: Place) -> None:
        """Let ONNX Runtime allocate ``place`` on its device."""
        assert self.binding is not None
        memory = layout.memories[place[1]]
        self.binding.bind_output(place[0], memory.device_type, memory.device_id)
