"""Seconds of every op from a device's calibration: by the kernels ONNX Runtime runs, not by the ops of the file."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetpart.cost_model.caches import LOOKUPS, streamed_weights
from hetpart.cost_model.call_seconds import (
    ELEMENT_BYTES,
    Surroundings,
    call_seconds,
    constants_seconds,
    filled_share,
    lost_share,
    pushed_out,
    start_seconds,
)
from hetpart.cost_model.einsum_calls import einsum_seconds
from hetpart.cost_model.expanded import expanded_seconds
from hetpart.cost_model.formulas.convolution import is_expanded
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.fusion import Fusions
from hetpart.cost_model.kernel_calls import (
    HEADS,
    HEAVY,
    REORDER,
    UNARY,
    KernelCall,
    kernel_call,
)  # fmt: skip
from hetpart.cost_model.likeness import Likenesses
from hetpart.cost_model.product_calls import BATCHED
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.lane import lane_of
from hetpart.cost_model.session.reuse import Kernel, overwriting
from hetpart.devices import Device, Provider
from hetpart.graph.ir import Graph, Op
from hetpart.rates import KernelRates

BY_ROWS = frozenset({"gemm", *BATCHED})
"""Families of which a run that needs them seldom computes fewer rows; the weights are read for the first already."""
COPIERS = frozenset({"Scatter", "ScatterElements", "ScatterND", "TensorScatter"})
"""Ops that copy long blocks, which processors do past the caches: the code of others stays where it is."""
CONVOLVES = frozenset({"Conv", REORDER})
"""What calibration profiles, rather than to time its sessions."""
USUAL_OPERANDS = 3
"""Values that flow in and out of the kernels whose seconds are in the tables."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a calibration says of an op, or of a kernel."""

    seconds: float | None
    """Of its work; ``None``: no table of the calibration speaks of it."""
    beside: float = 0.0
    """Of starting it where its code is cold, of its constants, and of the nodes beside it."""

    @property
    def known(self) -> float | None:
        """All that it takes."""
        return None if self.seconds is None else self.seconds + self.beside

    def __add__(self, other: Taken) -> Taken:
        unknown = self.seconds is None or other.seconds is None
        return Taken(None if unknown else (self.seconds or 0.0) + (other.seconds or 0.0), self.beside + other.beside)


UNMEASURED, NOTHING = Taken(None), Taken(0.0)


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel of a session, and what it takes."""

    kernel: Kernel
    taken: Taken


def measured_seconds(graph: Graph, device: Device, fusions: Fusions, alike: Likenesses) -> tuple[Taken, ...]:
    """Per op, what it takes on ``device`` when all of ``graph`` runs there in one session.

    A kernel's seconds are those of the op that it is named after; others that share it take none, where a table speaks
    of it. What reorders channels for a kernel, or behind the last, counts with it.
    """
    if device.rates is None:
        return (UNMEASURED,) * len(graph.ops)
    # What the optimiser takes out costs nothing; kernels fill in what it leaves.
    found = [NOTHING] * len(graph.ops)
    waiting, last = NOTHING, 0
    for timed in measured_kernels(graph, device, fusions, alike):
        waiting += timed.taken
        if timed.kernel.ops:
            last = _head([graph.ops[op] for op in timed.kernel.ops]).id
            found[last], waiting = found[last] + waiting, NOTHING
    if graph.ops:
        found[last] += waiting
    return tuple(found)


def measured_kernels(graph: Graph, device: Device, fusions: Fusions, alike: Likenesses) -> tuple[TimedKernel, ...]:
    """The kernels that all of ``graph`` runs as on ``device``, in order; none where it has no calibration."""
    rates = device.rates
    if rates is None:
        return ()
    kernels = session_kernels(graph, range(len(graph.ops)), fusions, lane_of(device), frozenset(graph.outputs))
    in_place = {op for op, providers in enumerate(fusions.in_place) if device.provider in providers}
    known: dict[Hashable, Taken] = {}
    timed: list[TimedKernel] = []
    for kernel, around in zip(kernels, _surroundings(kernels, graph, rates), strict=True):
        key = _kernel_likeness(kernel, alike, around)
        taken = None if key is None else known.get(key)
        if taken is None:
            taken = _taken(kernel, _seconds_of(kernel, graph, device, around, in_place), rates, around)
        if key is not None:
            known[key] = taken
        timed.append(TimedKernel(kernel, taken))
    return tuple(timed)


def _kernel_likeness(kernel: Kernel, alike: Likenesses, around: Surroundings) -> Hashable:
    """Kernels of one take the same; None is for those that run bodies."""
    ops = tuple([alike[op] for op in kernel.ops])
    if None in ops:
        return None
    made = tuple([(made.nbytes, made.view_of is None) for made in kernel.makes])
    return (ops, kernel.op_type, kernel.views, made, around)


def _surroundings(kernels: Sequence[Kernel], graph: Graph, rates: KernelRates) -> list[Surroundings]:
    """Of every kernel. What no kernel makes, the run before this one used last."""
    put_in = {made.value: made.nbytes for kernel in kernels for made in kernel.makes if made.value >= len(graph.values)}
    touched = [_touched(kernel, graph, put_in) for kernel in kernels]
    over = overwriting(kernels, (*graph.inputs, *graph.outputs))
    whole, weights = sum(touched), streamed_weights(graph)
    lost, cooled = lost_share(whole, rates), pushed_out(whole, rates.core_cache_bytes)
    began: dict[int, int] = {}
    ended: dict[str, int] = {}
    read: dict[Hashable, int] = {}
    passed, filled = 0, 0.0
    found: list[Surroundings] = []
    for kernel, nbytes in zip(kernels, touched, strict=True):
        kind = _head([graph.ops[op] for op in kernel.ops]).op_type if kernel.ops else REORDER
        distance = max([passed - began.get(value, passed - whole) for value in kernel.reads], default=0)
        if any(_looks_up_weights(graph.ops[op], graph) for op in kernel.ops):
            distance = whole  # to other rows than the run before, and to the tables that tell where their pages are
        spared = sum([made.nbytes for made in kernel.makes if made.value in over])
        since, constants = passed - ended.get(kind, passed - whole), _constants(kernel, graph)
        anew = sum([pushed_out(passed - read.get(each, passed - whole), rates.cache_bytes) for each in constants])
        operands = max(0, len({*kernel.reads}) + len(kernel.makes) - USUAL_OPERANDS)
        convolves = kind in CONVOLVES
        unary = kind in UNARY or convolves or _is_view(kernel)
        found.append(
            Surroundings(
                distance, nbytes, weights, since, spared, operands, anew, lost, cooled, filled, unary, convolves
            )
        )
        read.update(dict.fromkeys(constants, passed))
        began.update((made.value, passed) for made in kernel.makes)
        passed, filled = passed + nbytes, filled_share(nbytes, rates.core_cache_bytes)
        if kind in COPIERS:
            ended = {other: place + nbytes for other, place in ended.items()}
        ended[kind] = passed
    return found


def _touched(kernel: Kernel, graph: Graph, put_in: Mapping[int, int]) -> int:
    """Bytes that a kernel reads and writes; of tables it looks rows up in, what it makes of them.

    ``put_in`` are sizes of values that the model lacks.
    """
    tables = {graph.ops[op].inputs[0] for op in kernel.ops if graph.ops[op].op_type in LOOKUPS}
    reads = set(kernel.reads) - tables
    values = [value if value >= 0 else -1 - value for value in reads - put_in.keys()]
    flowing = sum([graph.values[value % len(graph.values)].nbytes for value in values])
    flowing += sum([put_in[value] for value in reads & put_in.keys()])
    weights = {
        v for op in kernel.ops if graph.ops[op].op_type not in LOOKUPS for v in graph.ops[op].uses
        if graph.values[v].is_constant
    }  # fmt: skip
    return flowing + sum([graph.values[v].nbytes for v in weights]) + sum([made.nbytes for made in kernel.makes])


def _constants(kernel: Kernel, graph: Graph) -> dict[Hashable, None]:
    """Those that a kernel reads, but for weights of products, and tables that rows are looked up in.

    Numbers of a formula that several ops write out are the fused kernel's own. Equal ones of a few elements are one in
    a session.
    """
    ops = [graph.ops[op] for op in kernel.ops if graph.ops[op].op_type not in HEAVY]
    tables = {op.inputs[0] for op in ops if op.op_type in LOOKUPS}
    values = [graph.values[value] for op in ops for value in op.uses if value not in tables]
    least = 2 if len(kernel.ops) > 1 else 0
    read = [value for value in values if value.is_constant and value.numel >= least]
    return dict.fromkeys(
        [value.id if value.content is None else (value.dtype, value.shape, value.content) for value in read]
    )


def _looks_up_weights(op: Op, graph: Graph) -> bool:
    table = op.inputs[0] if op.op_type in LOOKUPS else None
    return table is not None and graph.values[table].is_constant


def _is_view(kernel: Kernel) -> bool:
    """Whether it makes nothing that lies elsewhere."""
    return bool(kernel.makes) and all(made.view_of is not None for made in kernel.makes)


def _head(members: list[Op]) -> Op:
    """The op that the kernel is named after."""
    return next((op for op in members if op.op_type in HEADS), members[-1])


def _taken(kernel: Kernel, seconds: float | None, rates: KernelRates, around: Surroundings) -> Taken:
    """With what passing the nodes takes: those without a kernel, and all where less of them stays in a cache."""
    start = start_seconds(rates, around)
    beside = constants_seconds(rates, around) + start + kernel.views * (rates.visit_seconds + start)
    # What brings channels into blocks is there whatever runs behind it.
    return Taken(seconds, beside) if kernel.ops else Taken(0.0, (seconds or 0.0) + beside)


def _seconds_of(
    kernel: Kernel, graph: Graph, device: Device, around: Surroundings, in_place: Collection[int]
) -> float | None:
    assert device.rates is not None
    head = _head([graph.ops[op] for op in kernel.ops]) if kernel.ops else None
    if head is not None and device.provider is Provider.CPU and _is_expanded(head, graph):
        return expanded_seconds(head, graph, device.rates)
    return _kernel_seconds(kernel, graph, device.rates, around, in_place)


def _is_expanded(op: Op, graph: Graph) -> bool:
    return op.op_type == "Conv" and not op.domain and is_expanded(Operands.of(op, graph))


def _kernel_seconds(
    kernel: Kernel, graph: Graph, rates: KernelRates, around: Surroundings, in_place: Collection[int]
) -> float | None:
    if not kernel.ops:
        elements = max(1, kernel.makes[0].nbytes // ELEMENT_BYTES)
        return call_seconds(KernelCall(REORDER, (elements,)), rates, around)
    if _is_view(kernel):
        return rates.visit_seconds
    members = [graph.ops[op] for op in kernel.ops]
    if kernel.op_type:
        members = [replace(members[-1], op_type=kernel.op_type)]
    if members[-1].op_type == "Einsum" and not members[-1].domain:
        return einsum_seconds(members[-1], graph, rates)
    call = kernel_call(members, graph, in_place=members[-1].id in in_place)
    if call is None or call.family not in rates.tables:
        return None
    probability = _head(members).usage.probability
    if call.family in BY_ROWS:
        rows, *rest = call.sizes
        return call_seconds(replace(call, sizes=(max(1.0, rows * probability), *rest)), rates, around)
    seconds = call_seconds(call, rates, around) + around.operands * rates.operand_seconds
    start = min(seconds, rates.launch_seconds)
    return start + (seconds - start) * probability
