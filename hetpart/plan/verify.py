"""What makes a plan consistent, as rows of (rule, what breaks it).

A plan file may come from anywhere. What these rules let through can be run and reported without a look outside the
plan, and no buffer in it is too small for its value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import isclose, prod

from hetpart.devices import Provider
from hetpart.graph.granted import violations_in
from hetpart.graph.ir import DTYPE_BITS
from hetpart.plan import verify_timeline
from hetpart.plan.model import Buffer, Partition, Plan, ValueForm, ValueSpec
from hetpart.plan.streamed import streamed_weights

_ROUNDING = 1e-6
"""Relative."""
Offenders = Callable[[Plan], Iterable[str]]


def violations(plan: Plan) -> Iterator[str]:
    """Every rule the plan breaks, with the first name that breaks it."""
    for rule, offenders in RULES:
        for name in offenders(plan):
            yield f"{rule}: {name}"
            break


def _repeated(names: Iterable[str]) -> Iterator[str]:
    return (name for name, number in Counter(names).items() if number > 1)


def _outside(names: Iterable[str], known: Iterable[str]) -> list[str]:
    return sorted(set(names) - set(known))


def _specs(plan: Plan) -> dict[str, ValueSpec]:
    return {spec.name: spec for spec in (*plan.inputs, *plan.outputs, *plan.values)}


def _devices_used(plan: Plan) -> Iterator[str]:
    for records in (plan.partitions, plan.buffers, plan.residencies, plan.decisions):
        yield from (record.device for record in records)
    for transfer in plan.transfers:
        yield from (transfer.source, transfer.target)
    yield from plan.homes.values()


def _values_used(plan: Plan) -> Iterator[str]:
    for partition in plan.partitions:
        yield from (*partition.inputs, *partition.outputs)
    yield from (record.value for records in (plan.transfers, plan.buffers) for record in records)
    yield from (*plan.passthrough, *plan.passthrough.values(), *plan.states, *plan.states.values(), *plan.homes)


def _unmade_inputs(plan: Plan) -> Iterator[str]:
    made = {spec.name for spec in plan.inputs} | set(streamed_weights(plan))
    for partition in plan.partitions:
        yield from _outside(partition.inputs, made)
        made.update(partition.outputs)
    yield from _outside((spec.name for spec in plan.outputs), made | set(plan.passthrough))


def _strangers(partition: Partition) -> list[str]:
    borders = ((partition.host_inputs, partition.inputs), (partition.host_outputs, partition.outputs))
    return [name for on_host, known in borders for name in _outside(on_host, known)]


def _bad_steps(plan: Plan) -> Iterator[str]:
    last = len(plan.partitions)
    yield from (transfer.value for transfer in plan.transfers if not 0 <= transfer.step <= last)
    yield from (buffer.value for buffer in plan.buffers if not 0 <= buffer.first <= buffer.last <= last)


def _small_buffers(plan: Plan) -> Iterator[str]:
    specs = _specs(plan)
    for buffer in plan.buffers:
        spec = specs.get(buffer.value)
        if spec is not None and (buffer.offset < 0 or buffer.nbytes < _least_bytes(spec)):
            yield buffer.value


def _least_bytes(spec: ValueSpec) -> int:
    sizes = [size for size in spec.shape or () if size is not None]
    return -(-prod(sizes) * DTYPE_BITS.get(spec.dtype, 0) // 8)


def _shapeless(plan: Plan) -> Iterator[str]:
    for spec in _specs(plan).values():
        known = spec.shape is not None and None not in spec.shape
        if spec.form is ValueForm.STATIC and not (known and spec.nbytes == _least_bytes(spec)):
            yield spec.name


def _wordy(plan: Plan) -> Iterator[str]:
    for spec in _specs(plan).values():
        if spec.form is not ValueForm.OPAQUE and (spec.dtype not in DTYPE_BITS or spec.dtype == "string"):
            yield spec.name


def _contradictions(plan: Plan) -> Iterator[str]:
    """A value may be listed at the model's border and between partitions; both say the same of it."""
    specs = _specs(plan)
    listed = (*plan.inputs, *plan.outputs, *plan.values)
    yield from (spec.name for spec in listed if replace(spec, range=None) != replace(specs[spec.name], range=None))


def _absent(plan: Plan) -> Iterator[str]:
    """What a partition or copy reads from a device that the value is not on by then, in the order of a run."""
    host = next((use.device for use in plan.devices), "")
    present = {(name, host) for name in streamed_weights(plan)}
    present |= {(spec.name, plan.homes.get(spec.name, host)) for spec in plan.inputs}
    waiting = list(reversed(plan.transfers))
    for step in range(len(plan.partitions) + 1):
        while waiting and waiting[-1].step <= step:
            copy = waiting.pop()
            yield from _unless((copy.value, copy.source), present)
            present.add((copy.value, copy.target))
        for partition in plan.partitions[step : step + 1]:
            for name in partition.inputs:
                yield from _unless((name, host if name in partition.host_inputs else partition.device), present)
            on_host = partition.host_outputs
            present.update((name, host if name in on_host else partition.device) for name in partition.outputs)
    for spec in plan.outputs:
        name = plan.passthrough.get(spec.name, spec.name)
        yield from _unless((name, plan.homes.get(name, host)), present)


def _unless(place: tuple[str, str], present: set[tuple[str, str]]) -> Iterator[str]:
    if place not in present:
        yield f"{place[0]} on {place[1]}"


def _overlaps(plan: Plan) -> Iterator[str]:
    """Buffers that share bytes of an arena at one time; those in memory at once are few, so they are compared."""
    held: list[Buffer] = []
    for buffer in sorted((b for b in plan.buffers if b.nbytes), key=lambda b: b.first):
        held = [other for other in held if other.last >= buffer.first]
        yield from (f"{other.value} and {buffer.value}" for other in held if _share_bytes(other, buffer))
        held.append(buffer)


def _share_bytes(a: Buffer, b: Buffer) -> bool:
    return a.device == b.device and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def _negative_sizes(plan: Plan) -> Iterator[str]:
    sized = (*plan.transfers, *plan.buffers, *plan.inputs, *plan.outputs, *plan.values)
    yield from (getattr(record, "value", "") or getattr(record, "name", "") for record in sized if record.nbytes < 0)
    yield from (file.path for file in plan.model.files if file.nbytes < 0)


def _unproven(plan: Plan) -> Iterator[str]:
    """A bound above the cost, or a gap that is not theirs."""
    proof = plan.certificate
    if not 0 <= proof.lower_bound <= proof.cost * (1 + _ROUNDING):
        yield f"a bound of {proof.lower_bound} s and a cost of {proof.cost} s"
    gap = max(0.0, 1 - proof.lower_bound / proof.cost) if proof.cost > 0 else 0.0
    if abs(proof.gap - gap) > _ROUNDING:
        yield f"a gap of {proof.gap}, where cost and bound leave {gap}"


def _misadded(plan: Plan) -> Iterator[str]:
    """Seconds that are not the sum of their parts, and peaks that are not."""
    told = plan.prediction
    parts = told.compute_seconds + told.transfer_seconds + told.session_seconds
    if not isclose(told.seconds, parts, rel_tol=_ROUNDING, abs_tol=1e-12):
        yield f"{told.seconds} s, of {parts} s in parts"
    for use in plan.devices:
        parts = use.weight_bytes + use.state_bytes + use.buffer_bytes + use.activation_bytes + use.session_bytes
        if use.peak_bytes != parts:
            yield f"{use.peak_bytes} bytes on {use.device}, of {parts} in parts"


def _elsewhere(plan: Plan) -> Iterator[str]:
    """Ops whose decision names another partition or device than the partition that has them."""
    places = {op: (partition.id, partition.device) for partition in plan.partitions for op in partition.ops}
    yield from (one.op for one in plan.decisions if places.get(one.op) != (one.partition, one.device))


def _unasked(plan: Plan) -> Iterator[str]:
    ranks = {spec.name: len(spec.shape or ()) for spec in plan.inputs}
    for size in plan.granted.sizes:
        if size.input not in ranks or not 0 <= (size.axis or 0) < max(ranks[size.input], size.axis is None):
            yield size.name
    yield from violations_in(plan.granted)


RULES: tuple[tuple[str, Offenders], ...] = (
    ("a plan has a host", lambda plan: () if plan.devices else ("no device",)),
    ("devices have names of their own", lambda plan: _repeated(use.device for use in plan.devices)),
    ("devices are listed", lambda plan: _outside(_devices_used(plan), (use.device for use in plan.devices))),
    ("providers are known", lambda plan: _outside((use.provider for use in plan.devices), tuple(Provider))),
    ("values are listed", lambda plan: _outside(_values_used(plan), _specs(plan))),
    ("partitions have numbers of their own", lambda plan: _repeated(f"{p.id}" for p in plan.partitions)),
    ("values are made before they are used", _unmade_inputs),
    ("host inputs are inputs", lambda plan: (name for p in plan.partitions for name in _strangers(p))),
    ("copies and buffers lie within the run", _bad_steps),
    ("values are on a device before they are read there", _absent),
    ("values held by address are numbers", _wordy),
    ("values of planned size have one", _shapeless),
    ("a value is described in one way", _contradictions),
    ("buffers hold their values", _small_buffers),
    ("buffers in use do not overlap", _overlaps),
    ("sizes are not negative", _negative_sizes),
    ("conditions compare sizes of inputs", _unasked),
    ("a certificate adds up", _unproven),
    ("figures are the sums of their parts", _misadded),
    ("decisions say where ops are", _elsewhere),
    ("a timeline has every partition and copy once", verify_timeline.miscounted),
    ("tasks wait for tasks before them", verify_timeline.waits_backwards),
    ("tasks are on their lanes", verify_timeline.out_of_lane),
    ("tasks start when what they wait for is done", verify_timeline.too_early),
    ("tasks wait for what they read", verify_timeline.read_too_early),
    ("tasks wait until what they write over is done with", verify_timeline.overwritten),
)
