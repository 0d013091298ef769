"""What kernels take while they run: their own scratch, and for If, Loop and Scan what their bodies take.

Bodies run in the arena of the session they are in, buffer by buffer: ONNX Runtime lays out no block for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetpart.cost_model.formulas.control import UNKNOWN_TRIPS, sequences_of, trips_of
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.memory import NO_SCRATCH, Scratch, aligned, most_alive
from hetpart.cost_model.quantized import is_quantized
from hetpart.cost_model.session.kernels import Lane, session_kernels
from hetpart.cost_model.session.reuse import Kernel, Made, Step, plan_buffers
from hetpart.cost_model.session.scratch import scratch_of
from hetpart.cost_model.session.scratch.table import Trace
from hetpart.cost_model.session.widened import as_floats, half_body, widened
from hetpart.cost_model.wiring import Wiring
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

STEADY = 3
"""Trips after which every further one takes the same."""
MOST_SLICES, BUNDLES = 64, 32
"""Slices of scan outputs that are taken one by one; further ones are taken together."""
COUNTER_BYTES, CONDITION_BYTES = 8, 1
BEFORE_STATES = 2
"""Inputs of a Loop before its states: how often, and whether at all. Of its body's outputs one: whether once more."""


def session_lane(graph: Graph, lane: Lane) -> Lane:
    """``lane`` with what the kernels of ``graph`` take."""
    return replace(lane, scratch=kernel_scratch(graph, lane))


def kernel_scratch(graph: Graph, lane: Lane) -> dict[int, Scratch]:
    """What kernels of ``graph`` take while ``lane`` runs them, by op; the others take nothing."""
    found: dict[int, Scratch] = {}
    on_cpu = lane.provider is Provider.CPU
    on_integers = _on_integers(graph) if on_cpu else frozenset[int]()
    wide = widened(graph.ops, graph, frozenset(graph.outputs)) if on_cpu else frozenset[int]()
    floats = as_floats(graph) if wide else graph
    for op in graph.ops:
        of = floats if op.id in wide else graph
        if op.bodies and op.op_type in BODIES and not op.domain:
            runs = [_Body.of(body, op, graph, lane) for body in op.bodies]
            found[op.id] = BODIES[op.op_type](Operands.of(op, graph), runs)
        elif op.id not in wide or half_body(op, graph) is None:
            taken = scratch_of(op, of, lane.provider, lane.threads, quantized=op.id in on_integers)
            found.update({op.id: taken} if taken is not NO_SCRATCH else {})
    return found


def _on_integers(graph: Graph) -> frozenset[int]:
    """Ops that quantization around them makes integer kernels of, or, of products of integers, before them alone."""
    types = {op.op_type for op in graph.ops}
    found: set[int] = set()
    if "QuantizeLinear" in types:
        wiring = Wiring.of(graph)
        found.update(op.id for op in graph.ops if is_quantized(op, wiring))
    if "DynamicQuantizeLinear" in types:
        absorbed = find_fusions(graph).absorbed
        quantizers = (op for op in graph.ops if op.op_type == "DynamicQuantizeLinear")
        makers = {made: op.id for op in quantizers for made in op.results[:1]}
        products = ((op, value) for op in graph.ops if op.op_type == "MatMulInteger" for value in op.inputs[:1])
        found.update(op.id for op, value in products if value in makers and Provider.CPU in absorbed[makers[value]])
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Body:
    """A body as ONNX Runtime runs it once."""

    inputs: Sequence[int]
    outputs: Sequence[int]
    kernels: Sequence[Kernel]
    steps: Sequence[Step]

    @classmethod
    def of(cls, body: Graph, op: Op, graph: Graph, lane: Lane) -> _Body:
        known = _with_constants(body, op, graph)
        ends = frozenset(known.outputs)
        kernels = session_kernels(known, range(len(known.ops)), find_fusions(known), session_lane(known, lane), ends)
        steps = plan_buffers(kernels, {*known.inputs, *ends}, thrifty=lane.thrifty)
        return cls(known.inputs, known.outputs, kernels, steps)

    def run(self, trace: Trace, *, own_outputs: bool = False) -> dict[int, int]:
        """One run written into ``trace``: the blocks of outputs, where the body takes them for itself.

        An output that is an input under another name takes nothing.
        """
        blocks: dict[int, int] = {}
        ends = frozenset(self.outputs) if own_outputs else frozenset[int]()
        for kernel, step in zip(self.kernels, self.steps, strict=True):
            made = [
                *step.allocates,
                *(made for made in kernel.makes if made.value in ends and made.view_of not in self.inputs),
            ]
            trace.play(kernel.scratch, lambda made=made: blocks.update((m.value, trace.take(_taken(m))) for m in made))
            trace.give_back(*(blocks.pop(value) for value in step.releases))
        return {value: block for value, block in blocks.items() if value in ends}


def _taken(made: Made) -> int:
    return made.nbytes if made.parts is None else sum(made.parts)


def _with_constants(body: Graph, op: Op, graph: Graph) -> Graph:
    """``body`` with the weights that it reads from outside as its own."""
    outside = {graph.values[v].name: graph.values[v].role for v in op.captures if graph.values[v].is_constant}
    if not outside:
        return body
    values = tuple(
        replace(value, role=outside[value.name]) if value.producer is None and value.name in outside else value
        for value in body.values
    )
    return replace(body, values=values)


def _branch(_: Operands, runs: Sequence[_Body]) -> Scratch:
    """That of the branch that takes more; what it returns lies in the outputs of the If."""
    scratches: list[Scratch] = []
    for run in runs:
        trace = Trace()
        run.run(trace)
        scratches.append(trace.scratch())
    return max(scratches, key=lambda scratch: most_alive(scratch.blocks))


def _loop(o: Operands, runs: Sequence[_Body]) -> Scratch:
    """States of this trip and of the one before, the scan outputs of all trips, and behind them the outputs."""
    body, trips, trace = runs[0], trips_of(o), Trace()
    trips = UNKNOWN_TRIPS if trips is None else trips
    states = set(body.outputs[: len(o.inputs) - BEFORE_STATES + 1])
    added = {
        m.value: sum(map(aligned, m.parts))
        for kernel in body.kernels
        for m in kernel.makes
        if m.parts and m.value in states
    }
    trace.take(COUNTER_BYTES)
    trace.take(CONDITION_BYTES)
    carried: list[list[int]] = []
    sequences: list[int] = []
    for trip in range(min(trips, STEADY)):
        if trip + 1 == STEADY:
            _take_slices(body, states, trips - STEADY, trace)
            sequences += _take_repeated(trips - STEADY, sum(added.values()), trace)
        if len(carried) > 1:
            trace.give_back(*carried[-2])
        made = body.run(trace, own_outputs=True)
        carried.append([block for value, block in made.items() if value in states and value not in added])
        sequences += [block for value, block in made.items() if value in added]
    # What sequences hold is what the Loop returns.
    trace.give_back(*sequences)
    return trace.scratch(trace.next_moment())


def _take_slices(body: _Body, states: set[int], trips: int, trace: Trace) -> None:
    """What ``trips`` trips leave for scan outputs."""
    made = {made.value: made.nbytes for kernel in body.kernels for made in kernel.makes}
    for value in set(body.outputs) - states:
        _take_repeated(trips, made.get(value, 0), trace)


def _take_repeated(trips: int, nbytes: int, trace: Trace) -> list[int]:
    """Blocks of ``nbytes`` for every trip, those of many trips bundled: one of all would not fit where they do."""
    single = max(0, min(trips, MOST_SLICES))
    bundle, left = divmod(max(0, trips - single), BUNDLES)
    sizes = [*[nbytes] * single, *[bundle * aligned(nbytes)] * BUNDLES, left * aligned(nbytes)]
    return [trace.take(size) for size in sizes if size]


def _scan(o: Operands, runs: Sequence[_Body]) -> Scratch:
    """Two buffers for every state, copies of what is scanned along another axis than the first, and one trip."""
    body, trips, trace = runs[0], trips_of(o), Trace()
    length = UNKNOWN_TRIPS if trips is None else trips // max(1, sequences_of(o) or 1)
    scanned = o.integer("num_scan_inputs", 1)
    states = len(o.inputs) - scanned
    for position in range(states):
        for _ in range(min(length - 1, 2)):
            trace.take(o.nbytes(position))
    for number, axis in enumerate(o.integers("scan_input_axes")):
        trace.take(o.nbytes(states + number) if axis else 0)
    for number, axis in enumerate(o.integers("scan_output_axes")):
        trace.take(o.output_nbytes(states + number) if axis else 0)
    body.run(trace)
    return trace.scratch()


def _map(o: Operands, runs: Sequence[_Body]) -> Scratch:
    """A copy of a tensor while the body runs on it; what that makes lies in the sequence that is returned."""
    trace = Trace()
    first = o.input(0)
    trace.take(max((first.parts if first is not None else None) or (0,)))
    runs[0].run(trace)
    return trace.scratch()


BODIES: Mapping[str, Callable[[Operands, Sequence[_Body]], Scratch]] = {
    "If": _branch,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _map,
}
