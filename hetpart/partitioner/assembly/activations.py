"""Most activation bytes that each partition's session has in use: its arena, as ONNX Runtime would run it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.kernels import Lane, session_kernels
from hetpart.cost_model.session.memory import session_memory
from hetpart.devices import Provider

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.scores.cut import Cut


def expected_activation_bytes(
    graph: Graph, costs: Costs, formulation: Formulation, cut: Cut, crossing: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    """The same where only a run can tell sizes, as the user's access profile lets expect; None where it tells nothing.

    A routed expert's values can take every token, which is what ``activation_bytes`` counts; where it is said to take
    part in a quarter of them, a quarter is expected.
    """
    values = list(graph.values)
    for op in costs.graph.ops:  # which the cost model has told how each is used
        for value in op.results if op.usage.probability < 1 else ():
            if not values[value].is_static:
                values[value] = replace(values[value], nbytes=round(values[value].nbytes * op.usage.probability))
    expected = replace(graph, values=tuple(values))
    return None if expected.values == graph.values else activation_bytes(expected, costs, formulation, cut, crossing)


def activation_bytes(
    graph: Graph, costs: Costs, formulation: Formulation, cut: Cut, crossing: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """(P,) What each partition's arena has in use at its peak. Values across borders lie in buffers beside it."""
    fusions = find_fusions(graph)
    kept = frozenset(formulation.values[int(index)].id for index in np.flatnonzero(crossing))
    scratch = {cost.op: cost.work.scratch for cost in costs.ops if cost.work.scratch}
    peaks: list[int] = []
    devices: list[int] = cut.devices.tolist()
    for partition, device in enumerate(devices):
        runs = costs.machine.devices[device]
        ops: list[int] = np.flatnonzero(cut.partition == partition).tolist()
        kernels = session_kernels(graph, ops, fusions, Lane(runs.provider, runs.threads, scratch), kept)
        peaks.append(session_memory(kernels, kept, doubling=runs.provider is Provider.CPU).in_use)
    return np.array(peaks, np.int64)
