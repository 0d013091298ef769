"""Graph × Machine → Costs: what every op costs on every device, and why in words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from hetpart.cost_model.assume import assume
from hetpart.cost_model.assumptions import NOTHING_ASSUMED, Assumptions
from hetpart.cost_model.caches import with_caches
from hetpart.cost_model.formulas import unknown_work, work_of
from hetpart.cost_model.formulas.control import UNKNOWN_TRIPS, expected_work, loops_guessed, loops_limited
from hetpart.cost_model.fused_work import changed_work, compute_dtype, fused_work
from hetpart.cost_model.fusion import Fusions, find_fusions
from hetpart.cost_model.likeness import likenesses
from hetpart.cost_model.measured import UNMEASURED, Taken, measured_seconds
from hetpart.cost_model.packing import packing_seconds
from hetpart.cost_model.roofline import VISIT_SECONDS, Bound, Estimate, estimate, visit_seconds
from hetpart.cost_model.support import Support, Supports
from hetpart.cost_model.transfer import copy_seconds
from hetpart.cost_model.work import Work
from hetpart.devices import HOST, Device, Machine
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.ir import Graph, Op, ValueKind
from hetpart.units import format_count

if TYPE_CHECKING:
    from hetpart.cost_model.breakdown import Row

TAKEN_OUT = "ONNX Runtime takes it out: it changes nothing, or another op does the same"
_LOOPS_SHOWN = 5
_TYPES_SHOWN = 5
STARTS = 3
"""That take as long as a product of a few numbers at most: 0.36 µs where starting a kernel takes 0.16."""
AS_FAST = 1.05
"""Devices whose times differ by less are called equally fast."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one op costs."""

    op: int
    work: Work
    """On the device that is fastest for it, where only that tells whether the op copies what it changes a part of."""
    known: bool
    """Whether a formula gave ``work``; if not it is a conservative guess."""
    seconds: tuple[float, ...]
    """Per device of the machine, launches included; ``inf`` where the device has no kernel."""
    estimates: tuple[Estimate, ...]
    """Per device, what bounds it there, had the device a kernel."""
    reason: str
    missing: tuple[str | None, ...]
    """Per device, why it has no kernel."""
    host_inputs: frozenset[int]
    """Positions of inputs a CUDA kernel reads from host memory."""
    host_outputs: frozenset[int]

    def of(self, other: Op) -> OpCost:
        """The same cost of ``other``, which is like this one's op."""
        return OpCost(
            other.id, self.work, self.known, self.seconds, self.estimates, self.reason, self.missing,
            self.host_inputs, self.host_outputs,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a graph's ops on a machine. ``ops[i]`` and ``groups[i]`` speak of op ``i``."""

    machine: Machine
    met: Machine
    """The same with the memory rates that the graph meets: those of a cache where it holds the graph."""
    graph: Graph
    ops: tuple[OpCost, ...]
    groups: tuple[int, ...]
    """Smallest op id of the fusion group each op belongs to; its own id when alone."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed for want of knowledge, and how to mend it."""
        guessed, limited = (_named(find, self.graph) for find in (loops_guessed, loops_limited))
        unknown = f"trip count unknown: {UNKNOWN_TRIPS} assumed for {_listed(guessed)}; --trip-count NAME=N tells it"
        most = (
            f"trip count taken from the limit in the model for {_listed(limited)}, which a condition may end before;"
            " --trip-count NAME=N tells it"
        )
        return (*self._guesses, *([unknown] if guessed else []), *([most] if limited else []), *self._seldom)

    @property
    def _seldom(self) -> tuple[str, ...]:
        """What the file says has nothing to do in most runs."""
        found: dict[int, list[str]] = {}
        for op in self.graph.ops:
            found.setdefault(op.every, []).append(op.name)
        return tuple(
            f"what is predicted is the mean of {every} runs: {format_count(len(names), 'op')}, {names[0]} first, do "
            "something in the last of them alone"
            for every, names in sorted(found.items())
            if every > 1
        )

    @property
    def _guesses(self) -> tuple[str, ...]:
        """Ops without a formula, and values whose size no shape tells."""
        types = sorted({self.graph.ops[cost.op].op_type for cost in self.ops if not cost.known})
        listed = ", ".join(types[:_TYPES_SHOWN]) + (", …" if len(types) > _TYPES_SHOWN else "")
        sizes = sum(not value.is_static and value.kind == ValueKind.TENSOR for value in self.graph.values)
        estimated = f"the size of {format_count(sizes, 'value')} is known only in a run: estimated"
        return (
            *([f"no cost formula for {listed}: priced conservatively"] if types else []),
            *([estimated] if sizes else []),
        )

    def rows(self, by: str = "op", depth: int | None = None) -> tuple[Row, ...]:
        """A row for every ``op``, ``type`` or module ``scope``, as ``breakdown.rows_of`` makes them."""
        from hetpart.cost_model.breakdown import rows_of

        return rows_of(self, by, depth)

    def to_frame(self, by: str = "op", depth: int | None = None) -> Any:
        """``rows`` as a ``pandas.DataFrame``, a column for each figure; types and modules the longest first.

        Ops stand in the graph's order. It needs pandas.
        """
        from hetpart.cost_model.breakdown import By, ranked
        from hetpart.cost_model.frame import frame_of

        rows = self.rows(by, depth)
        return frame_of(row.flat() for row in (rows if by == By.OP else ranked(rows)))

    def copy_seconds(self, nbytes: int, source: int, target: int) -> float:
        """Seconds to copy ``nbytes`` between two devices, by their index in the machine."""
        return copy_seconds(self.machine, nbytes, source, target)


def annotate(graph: Graph, machine: Machine, assumptions: Assumptions = NOTHING_ASSUMED) -> Costs:
    """Price every op of ``graph`` on every device of ``machine``, fused as ONNX Runtime fuses it in one session.

    Raises:
        InvalidOptionError: ``assumptions`` name what ``graph`` does not have.
    """
    assumed = assume(graph, assumptions)
    fusions = find_fusions(assumed)
    cached = with_caches(machine, assumed)
    return Costs(machine, cached, assumed, tuple(_prices(assumed, cached, fusions)), fusions.groups)


def _prices(graph: Graph, machine: Machine, fusions: Fusions) -> Iterator[OpCost]:
    """The cost of every op, in order; ops that are alike are priced once."""
    alike = likenesses(graph, fusions)
    measured = zip(*(measured_seconds(graph, device, fusions, alike) for device in machine.devices), strict=True)
    supports = Supports(graph, machine)
    known: dict[Hashable, OpCost] = {}
    for op, seconds, likeness in zip(graph.ops, measured, alike, strict=True):
        found = None if likeness is None else known.get((likeness, seconds))
        if found is None:
            found = known[likeness, seconds] = _price(op, graph, machine, fusions, supports.of(op), seconds)
        yield found if found.op == op.id else found.of(op)


def _price(
    op: Op, graph: Graph, machine: Machine, fusions: Fusions, support: Support, measured: tuple[Taken, ...]
) -> OpCost:
    formula = work_of(op, graph)
    work = expected_work(op, unknown_work(op, graph) if formula is None else formula)
    lanes = zip(machine.devices, measured, strict=True)
    estimates = tuple([_estimate(work, op, graph, fusions, device, taken) for device, taken in lanes])
    missing = support.missing
    seconds = tuple([inf if why else e.seconds for why, e in zip(missing, estimates, strict=True)])
    unknown = "" if formula is not None else f"{_runner(op)}no cost formula for {op.op_type}: "
    why = TAKEN_OUT if op.id in fusions.gone and inf not in seconds else _reason(machine, estimates, missing)
    return OpCost(
        op=op.id,
        work=changed_work(work, op, graph, fusions, machine.devices[seconds.index(min(seconds))].provider),
        known=formula is not None,
        seconds=seconds,
        reason=f"{unknown}{why}{_guess(op, graph)}",
        estimates=estimates,
        missing=missing,
        host_inputs=support.host_inputs,
        host_outputs=support.host_outputs,
    )


def _runner(op: Op) -> str:
    return "PyTorch runs it; " if op.domain == CALL_DOMAIN else ""


def _named(find: Callable[[Op, Graph], Iterator[Op]], graph: Graph) -> tuple[str, ...]:
    """Names of the loops that ``find`` finds, each once."""
    loops = (loop for op in graph.ops if op.bodies for loop in find(op, graph))
    return tuple(dict.fromkeys(loop.name or loop.op_type for loop in loops))


def _listed(loops: Sequence[str]) -> str:
    shown = ", ".join([*loops[:_LOOPS_SHOWN], *(["…"] if len(loops) > _LOOPS_SHOWN else [])])
    return f"{format_count(len(loops), 'loop')} ({shown})"


def _guess(op: Op, graph: Graph) -> str:
    """What is assumed of the loops in ``op``, where neither the user nor a shape says how often they run."""
    guessed = dict.fromkeys(loop.name or loop.op_type for loop in loops_guessed(op, graph)) if op.bodies else ()
    return "".join(f"; {UNKNOWN_TRIPS} runs of the body of {name} assumed" for name in guessed)


def _estimate(work: Work, op: Op, graph: Graph, fusions: Fusions, device: Device, measured: Taken) -> Estimate:
    """What bounds the op on ``device``; the seconds are those that were measured there, as far as any were."""
    visited = device.provider not in fusions.absorbed[op.id] and op.id not in fusions.gone
    left = fused_work(work, op, graph, fusions, device.provider)
    dtype = compute_dtype(op, graph, fusions, device.provider)
    found = estimate(left, device, dtype, visited=visited, called=op.domain == CALL_DOMAIN)
    packing = packing_seconds(op, graph, device)
    if measured is UNMEASURED and not packing:
        return found
    bound = found.bound if measured.known is None else _measured_bound(found, measured.known, measured.beside, device)
    seconds = (found.seconds if measured.seconds is None else measured.seconds) + measured.beside
    return replace(found, bound=bound, seconds=seconds + packing)


def _measured_bound(found: Estimate, seconds: float, beside: float, device: Device) -> Bound:
    """Of a kernel that takes ``seconds`` by measurement: the start, where that is most, else the slower roof."""
    if 0 < seconds <= STARTS * device.launch_seconds + beside:
        return Bound.LAUNCH
    if found.bound is not Bound.LAUNCH:
        return found.bound
    return Bound.COMPUTE if found.intensity >= found.balance else Bound.MEMORY


def _reason(machine: Machine, estimates: tuple[Estimate, ...], missing: tuple[str | None, ...]) -> str:
    able = [i for i, why in enumerate(missing) if why is None]
    if not able:
        return "; ".join(dict.fromkeys(why for why in missing if why))
    best = min(able, key=lambda i: (estimates[i].seconds, i))
    nature = _nature(machine.devices[best], estimates[best])
    return f"{nature}, {_comparison(best, machine, estimates, missing)}"


def _nature(device: Device, best: Estimate) -> str:
    if best.seconds <= visit_seconds(device):
        return f"next to no work on {device.name}"
    if best.bound is Bound.LAUNCH:
        return f"launch-bound on {device.name}"
    if best.bound is Bound.MEMORY and best.scattered:
        return f"bound by scattered rows on {device.name}"
    if best.bound is Bound.COMPUTE and best.intensity < best.balance:
        return f"bound by its elements, one after another, on {device.name}"
    relation = "≥" if best.intensity >= best.balance else "<"
    return f"{best.bound}-bound on {device.name} (intensity {best.intensity:.3g} {relation} {best.balance:.3g})"


def _comparison(best: int, machine: Machine, estimates: tuple[Estimate, ...], missing: tuple[str | None, ...]) -> str:
    """The best device beside the host, or the host beside the best accelerator."""
    others = [i for i in range(len(missing)) if (i == HOST) != (best == HOST)]
    if not others:
        return "the only device"
    other = min(others, key=lambda i: (missing[i] is not None, estimates[i].seconds))
    why = missing[other]
    if why is not None:
        return why
    ratio = estimates[other].seconds / max(estimates[best].seconds, VISIT_SECONDS / 100)
    rival = machine.devices[other].name
    return f"as fast on {rival}" if ratio < AS_FAST else f"{ratio:.1f}× faster there than on {rival}"
