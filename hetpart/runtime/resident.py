# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Which values of a plan stay on their device from run to run, and the plan without their copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetpart.cost_model.memory import Interval, aligned, pack
from hetpart.errors import ExecutionError, InvalidOptionError
from hetpart.plan.model import ValueForm
from hetpart.plan.states import AUTO, Port, find_states, fits
from hetpart.runtime.in_place import is_updated_in_place
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Partition, Plan, ValueSpec
    from hetpart.runtime.frame import Place

StateOption = Mapping[str, str] | str | None
"""Inputs and the outputs that replace them; ``"auto"`` for those that go by name; ``None`` for the plan's."""


@dataclass(frozen=True, slots=True)
class State:
    """An input and the output that replaces it, both on one device. Ops on another one read copies."""

    given: ValueSpec
    returned: ValueSpec
    device: str
    in_place: bool

    @property
    def old(self) -> Place:
        return self.given.name, self.device

    @property
    def new(self) -> Place:
        return self.returned.name, self.device

    @property
    def grows(self) -> bool:
        return self.given.form is not ValueForm.STATIC

    @property
    def nbytes(self) -> int:
        """Of all its blocks; 0 for one that grows."""
        return 0 if self.grows else self.given.nbytes * (1 if self.in_place else 2)


def read_states(bundle: Bundle, asked: StateOption) -> tuple[State, ...]:
    """The states of a session.

    Raises:
        InvalidOptionError: a name is no input or output, types differ, or the plan does not copy a state from where it
            is made to where it is read.
    """
    plan = bundle.plan
    pairs = _pairs(plan, plan.states if asked is None else asked)
    inputs, outputs = {spec.name: spec for spec in plan.inputs}, {spec.name: spec for spec in plan.outputs}
    return tuple(_state(bundle, inputs[given], outputs[returned]) for given, returned in sorted(pairs.items()))


def _pairs(plan: Plan, asked: Mapping[str, str] | str) -> Mapping[str, str]:
    inputs, outputs = _ports(plan.inputs), _ports(plan.outputs)
    if asked == AUTO:
        return find_states(inputs.values(), outputs.values())
    if not isinstance(asked, Mapping):
        raise InvalidOptionError(f"state cannot be {asked!r}", hint='it is "auto" or {"past": "present", …}')
    for given, returned in asked.items():
        if given not in inputs or returned not in outputs or not fits(inputs[given], outputs[returned]):
            raise InvalidOptionError(
                f"{returned!r} cannot be the new content of {given!r}",
                hint="a state is a graph input, and a graph output of its type and shape",
            )
    if len(set(asked.values())) < len(asked):
        raise InvalidOptionError("an output is the new content of two states", hint="give every state its own")
    return asked


def _ports(specs: tuple[ValueSpec, ...]) -> dict[str, Port]:
    return {spec.name: Port(spec.name, spec.dtype, spec.shape) for spec in specs if spec.form is not ValueForm.OPAQUE}


def _state(bundle: Bundle, given: ValueSpec, returned: ValueSpec) -> State:
    plan = bundle.plan
    readers = [p for p in plan.partitions if given.name in p.inputs]
    makers = [p for p in plan.partitions if returned.name in p.outputs]
    copied = {c.target for c in plan.transfers if c.value == given.name and c.source in {p.device for p in makers}}
    touching = {p.device for p in (*readers, *makers)} - copied
    on_host = any(given.name in p.host_inputs for p in readers) or any(returned.name in p.host_outputs for p in makers)
    if not makers or len(touching) > 1 or on_host or given.name in plan.passthrough.values():
        raise InvalidOptionError(
            f"the state {given.name!r} is read and made on {', '.join(sorted(touching)) or 'no device'}"
            f"{', in host memory' if on_host else ''}",
            hint=f"partition again with --state {given.name}={returned.name}, which keeps both on one device",
        )
    return State(given, returned, makers[0].device, _is_in_place(bundle, readers, makers[0], (given, returned)))


def _is_in_place(bundle: Bundle, readers: list[Partition], maker: Partition, pair: tuple[ValueSpec, ValueSpec]) -> bool:
    """Whether one block does: whatever else reads the old content has ended when the update begins.

    What is listed before the update it is made to wait for.
    """
    given, returned = pair
    others = {reader.id for reader in readers if reader.device == maker.device} - {maker.id}
    others |= {c.step for c in bundle.plan.transfers if c.value == given.name and c.source == maker.device}
    if given.form is not ValueForm.STATIC or max(others, default=-1) > maker.id:
        return False
    return is_updated_in_place(bundle.models[maker.id], given.name, returned.name)


def without_copies(plan: Plan, states: tuple[State, ...]) -> Plan:
    """``plan`` without the states among its inputs and outputs, and without their copies and buffers.

    Raises:
        ExecutionError: what the states take instead breaks the budget of a device.
    """
    if not states:
        return plan
    host = plan.devices[0].device
    old, new = dict(state.old for state in states), {state.returned.name for state in states}
    read_there = {(name, p.device) for p in plan.partitions for name in p.inputs}
    gone = {state.old for state in states} | {state.new for state in states}
    transfers = tuple(
        copy
        for copy in plan.transfers
        if copy.value not in old.keys() | new
        or ((copy.value, copy.target) in read_there and old.get(copy.value, copy.source) == copy.source)
    )
    kept = replace(
        plan,
        inputs=tuple(spec for spec in plan.inputs if spec.name not in old),
        outputs=tuple(spec for spec in plan.outputs if spec.name not in new),
        values=(*plan.values, *(spec for state in states for spec in (state.given, state.returned))),
        transfers=transfers,
        buffers=tuple(buffer for buffer in plan.buffers if (buffer.value, buffer.device) not in gone),
        homes={name: device for name, device in plan.homes.items() if name not in old.keys() | new},
        timeline=plan.timeline if transfers == plan.transfers else None,  # it tells of all of its copies, or of none
    )
    return _repacked(kept, plan, {use.device for use in plan.devices if use.device != host}, states)


def _repacked(kept: Plan, plan: Plan, devices: set[str], states: tuple[State, ...]) -> Plan:
    """``kept`` with its arenas closed up where buffers went."""
    changed = devices & {state.device for state in states}
    buffers = [buffer for buffer in kept.buffers if buffer.device not in changed]
    for device in sorted(changed):
        mine = [buffer for buffer in kept.buffers if buffer.device == device]
        packing = pack(tuple(Interval(buffer.first, buffer.last, buffer.nbytes) for buffer in mine))
        buffers += [replace(b, offset=offset) for b, offset in zip(mine, packing.offsets, strict=True)]
        use = plan.device(device)
        before = max((b.offset + aligned(b.nbytes) for b in plan.buffers if b.device == device), default=0)
        nbytes = sum(state.nbytes for state in states if state.device == device)
        others = use.peak_bytes - before - use.state_bytes
        _require_room(device, others + packing.nbytes + nbytes, use.budget_bytes, nbytes)
    return replace(kept, buffers=tuple(buffers))


def _require_room(device: str, peak: int, budget: int | None, nbytes: int) -> None:
    if budget is not None and peak > budget:
        raise ExecutionError(
            f"with {format_bytes(nbytes)} of states that stay on {device} it holds {format_bytes(peak)}, "
            f"{format_bytes(peak - budget)} over its budget",
            hint=f"partition again with --headroom {peak - budget}, or run with state={{}}",
        )
