"""What ONNX Runtime runs of a partition: fused kernels in its order, with what each reads, makes and may overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hetpart.cost_model.foldings import operands_of_products
from hetpart.cost_model.fusion import Fusions, find_fusions
from hetpart.cost_model.session.building import Building
from hetpart.cost_model.session.forms import told_in_halves
from hetpart.cost_model.session.lane import Lane
from hetpart.cost_model.session.merge import PARTS, merged
from hetpart.cost_model.session.order import in_order
from hetpart.cost_model.session.remade import remade
from hetpart.cost_model.session.reuse import Kernel
from hetpart.cost_model.session.rewired.pushing import pushed
from hetpart.cost_model.session.rewired.session import Told
from hetpart.cost_model.session.scratch import scratch_of
from hetpart.cost_model.session.simplify import Simplified, simplified, vanished
from hetpart.cost_model.session.widened import (
    as_floats,
    cancelled,
    cast_back,
    there_and_back,
    widened,
    with_cast_weights,
)
from hetpart.devices import Provider
from hetpart.graph.ir import Graph

__all__ = ["Lane", "session_kernels"]

BIASED = frozenset({"Add", "Gemm", "MatMul", "Transpose"})
"""What a product with a bias is written with."""


def session_kernels(
    graph: Graph, ops: Sequence[int], fusions: Fusions, lane: Lane, returned: frozenset[int]
) -> tuple[Kernel, ...]:
    """The kernels of a session that runs ``ops``, in the order ONNX Runtime runs them.

    Args:
        graph: What the ops are of.
        ops: Ids, in order.
        fusions: What is fused in ``graph``.
        lane: What runs them.
        returned: Values that leave the session.
    """
    whole = _whole(graph, ops, fusions, returned)
    moved = pushed(graph, whole, returned, lambda op: lane.provider in fusions.absorbed[op.id])
    if moved is None:
        built = _built(graph, whole, fusions, lane, returned)
        return in_order(built.kernels, built.index, len(graph.ops), partial(_is_early, graph))
    told, own = Told(graph, moved), moved.graph
    fusions = find_fusions(own)
    whole = _whole(own, range(len(own.ops)), fusions, returned)
    built = _built(own, whole, fusions, _with_scratch(lane, told), returned)
    return tuple(
        map(told.kernel, in_order(built.kernels, told.indices(built.index), told.above, partial(_is_early, own)))
    )


def _built(graph: Graph, whole: Simplified, fusions: Fusions, lane: Lane, returned: frozenset[int]) -> Building:
    folded = fusions.folded_on(lane.provider)
    anew = remade(whole, folded, returned)
    simple = whole.without(folded, graph, returned)
    # What products take over is taken over behind the casts.
    uncast = whole.without(folded - operands_of_products(folded, graph), graph, returned)
    wide = widened(uncast.ops, graph, returned) if lane.provider is Provider.CPU else frozenset[int]()
    if lane.provider is Provider.CPU:
        simple = simple.without(there_and_back(simple.ops, graph, returned), graph, returned)
    simple = simple.without(cancelled(simple.ops, graph, wide, returned), graph, returned)
    model = with_cast_weights(graph, simple.ops, wide)
    graph, found_wide = cast_back(model, simple.ops, wide, returned)
    simple = simple.without(found_wide, graph, returned)
    floats = as_floats(graph) if wide else graph
    groups = tuple(merged(floats, simple, fusions, lane, returned))
    session = Building(graph, simple, lane, wide, floats, vanished(whole, simple), anew, groups=groups)
    for members in groups:
        session.add(members)
    for value in sorted(returned & {value for op in simple.ops for value in op.results}):
        session.need_plain(value)
    kept = frozenset(value.id for value in graph.values if value.dtype != model.values[value.id].dtype)
    if kept:
        session.kernels = [told_in_halves(kernel, kept, len(graph.values)) for kernel in session.kernels]
    return session


def _whole(graph: Graph, ops: Sequence[int], fusions: Fusions, returned: frozenset[int]) -> Simplified:
    """What is left of ``ops``, which may be all of the graph that ``fusions`` speak of."""
    everything = len(ops) == len(graph.ops) and returned == frozenset(graph.outputs)
    return fusions.simple if everything else simplified(graph, ops, returned)


def _is_early(graph: Graph, kernel: Kernel) -> bool:
    """Whether the optimiser makes it at its first level: a product with a bias, a Split; the others at its second."""
    types = {graph.ops[op].op_type for op in kernel.ops}
    return types <= PARTS or ("Add" in types and types <= BIASED)


def _with_scratch(lane: Lane, told: Told) -> Lane:
    """``lane`` with what kernels take by their numbers in the pushed session."""
    graph, known = told.pushed.graph, told.unchanged(lane.scratch)
    changed = (op for op in graph.ops if told.is_changed(op.id))
    taken = {op.id: scratch_of(op, graph, lane.provider, lane.threads) for op in changed}
    return replace(lane, scratch={**known, **taken})
