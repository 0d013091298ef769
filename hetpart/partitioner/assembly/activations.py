"""Most activation bytes that each partition's session has in use: its arena, as ONNX Runtime would run it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.bodies import session_lane
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.lane import Lane, lane_of
from hetpart.cost_model.session.memory import session_memory
from hetpart.cost_model.session.packing import turned_in_arena
from hetpart.devices import Provider
from hetpart.partitioner.assembly.alike import Alike
from hetpart.partitioner.assembly.arenas import device_arena
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from hetpart.partitioner.scores.liveness import Packed, buffers, crossing_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.cost_model.fusion import Fusions
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.cut import Cut
    from hetpart.partitioner.scores.scoring import Packing


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
    every = np.ones(len(costs.machine.devices), np.bool_)
    return Sessions.of(graph, costs, formulation).in_use(cut, crossing, every)


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """What sessions of one model take of their arenas, each run through once."""

    graph: Graph
    costs: Costs
    fusions: Fusions
    lanes: tuple[Lane, ...]
    """What runs a session on each device."""
    values: NDArray[np.int64]
    """(V,) Id in the graph of every value of the problem."""
    made_by: NDArray[np.int64]
    alike: Alike
    known: dict[tuple[int, Hashable], int] = field(default_factory=dict[tuple[int, Hashable], int])

    @classmethod
    def of(cls, graph: Graph, costs: Costs, formulation: Formulation) -> Sessions:
        values = np.array([value.id for value in formulation.values], np.int64)
        made_by = formulation.problem.value_producer.astype(np.int64)
        # The cost model was told how often loops run.
        told = replace(graph, ops=costs.graph.ops)
        thrifty: list[bool] = (formulation.problem.budgets != NO_BUDGET).tolist()
        lanes = tuple(
            session_lane(told, lane_of(device, thrifty=limited))
            for device, limited in zip(costs.machine.devices, thrifty, strict=True)
        )
        fusions = find_fusions(graph)
        return cls(graph, costs, fusions, lanes, values, made_by, Alike.of(graph, fusions, lanes))

    def in_use(self, cut: Cut, crossing: NDArray[np.bool_], asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(P,) Bytes in use at the peak of each partition of the devices ``asked`` for; 0 of the others.

        Args:
            cut: The partitions.
            crossing: (V,) Values that lie in buffers.
            asked: (D,)
        """
        peaks = np.zeros(cut.partitions, np.int64)
        kept = np.flatnonzero(crossing)
        made_by = self.made_by[kept]
        maker = np.full(len(kept), NO_OP, np.int64)
        maker[made_by != NO_OP] = cut.partition[made_by[made_by != NO_OP]]
        for partition in np.flatnonzero(asked[cut.devices]).tolist():
            ops = np.flatnonzero(cut.partition == partition)
            left = np.sort(self.values[kept[maker == partition]])
            key = (int(cut.devices[partition]), self.alike.name(ops, left))
            if key not in self.known:
                self.known[key] = self.simulated(key[0], ops.tolist(), kept)
            peaks[partition] = self.known[key]
        return peaks

    def simulated(self, device: int, ops: list[int], kept: NDArray[np.int64]) -> int:
        """Bytes in use at the peak of a session that runs ``ops`` where the values ``kept`` lie in buffers."""
        lane = self.lanes[device]
        outside = frozenset[int](self.values[kept].tolist())
        kernels = session_kernels(self.graph, ops, self.fusions, lane, outside)
        on_cpu = lane.provider is Provider.CPU
        weights = turned_in_arena(self.graph, ops, lane.provider)
        return session_memory(kernels, outside, weights, doubling=on_cpu, thrifty=lane.thrifty).in_use


def packing(graph: Graph, costs: Costs, formulation: Formulation) -> Packing:
    """Lays out what a placement holds on the devices that have a budget; on the others it takes nothing."""
    problem, sessions = formulation.problem, Sessions.of(graph, costs, formulation)
    limited = problem.budgets != NO_BUDGET

    def packed(placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None) -> Packed:
        seen = formulation if streamed is None else formulation.with_streamed(streamed)
        crossing = crossing_values(seen.problem, cut)
        held = buffers(seen.problem, placement, cut, crossing)
        taken = np.zeros(len(limited), np.int64)
        for device in np.flatnonzero(limited).tolist():
            taken[device] = device_arena(seen, held, device).held_bytes
        return Packed(sessions.in_use(cut, crossing[: problem.values], limited), taken)

    return packed
