"""A solved placement with everything that the parts of a plan are read from, and those that follow from it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.assembly.activations import activation_bytes, expected_activation_bytes
from hetpart.partitioner.assembly.arenas import Arena, arenas
from hetpart.partitioner.assembly.specs import value_spec
from hetpart.partitioner.scores.liveness import Buffers, buffers, crossing_values
from hetpart.plan.model import Residency, ResidencyState, Transfer, ValueSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.search.solve import Solution


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """Everything the parts of a plan are read from."""

    graph: Graph
    costs: Costs
    formulation: Formulation
    solution: Solution
    pins: Mapping[int, str]
    rule: str
    """What the placement was asked of: ``optimal``, another rule, or a file."""
    crossing: NDArray[np.bool_]
    held: Buffers
    arenas: tuple[Arena, ...]
    """In the order of the devices."""
    activations: NDArray[np.int64]
    """(P,) Bytes that each partition's session has in use at its peak."""
    expected: NDArray[np.int64] | None
    """(P,) The same as the user's access profile lets expect; None where it says nothing of sizes."""
    order: tuple[int, ...] = ()
    """Tasks of a run by their starts, where it was cut for lanes that work at the same time."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        costs: Costs,
        formulation: Formulation,
        pins: Mapping[int, str],
        rule: str,
        solution: Solution,
    ) -> Assembly:
        problem, cut = formulation.problem, solution.cut
        crossing = crossing_values(problem, cut)
        held = buffers(problem, solution.placement, cut, crossing)
        activations = activation_bytes(graph, costs, formulation, cut, crossing)
        expected = expected_activation_bytes(graph, costs, formulation, cut, crossing)
        found = arenas(formulation, held)
        return cls(graph, costs, formulation, solution, pins, rule, crossing, held, found, activations, expected)

    @property
    def device_names(self) -> tuple[str, ...]:
        return self.formulation.problem.devices


def crossing_specs(assembly: Assembly) -> tuple[ValueSpec, ...]:
    """Specs of every value that crosses a partition's border, graph inputs included."""
    ranges = assembly.graph.index_ranges
    crossing = [assembly.formulation.values[int(index)] for index in np.flatnonzero(assembly.crossing)]
    return tuple(value_spec(value, ranges.get(value.name)) for value in crossing)


def transfers(assembly: Assembly) -> tuple[Transfer, ...]:
    """Copies in the order they are made: those to the host before those to an accelerator, as buffers assume."""
    home = assembly.formulation.problem.home(assembly.solution.placement)
    held = assembly.held
    found = [
        _transfer(assembly, int(home[value]), int(device), int(value), int(first))
        for value, device, first in zip(held.value, held.device, held.first, strict=True)
        if device != home[value]
    ]
    return tuple(sorted(found, key=lambda copy: (copy.step, copy.target != assembly.device_names[HOST])))


def _transfer(assembly: Assembly, source: int, target: int, index: int, step: int) -> Transfer:
    value = assembly.formulation.values[index]
    seconds = float(assembly.formulation.problem.copy_seconds[source, target, index])
    names = assembly.device_names
    return Transfer(value.name, names[source], names[target], value.nbytes, seconds, step)


def residencies(assembly: Assembly) -> tuple[Residency, ...]:
    """Where every weight is held."""
    held = assembly.formulation.problem.held(assembly.solution.placement)
    return tuple(
        Residency(weight.name, assembly.device_names[device], state, weight.nbytes)
        for index, weight in enumerate(assembly.formulation.weights)
        for device, state in _states(assembly, held[:, index], index)
    )


def _states(assembly: Assembly, held: NDArray[np.bool_], weight: int) -> list[tuple[int, ResidencyState]]:
    """Devices that a weight is held on, or streamed to. Of a streamed one the host's copy is said where ops use it."""
    found = [
        (device, ResidencyState.HOST if device == HOST else ResidencyState.RESIDENT)
        for device in np.flatnonzero(held).tolist()
    ]
    streamed, solution = assembly.solution.streamed, assembly.solution
    if streamed is None or not streamed[weight]:
        return found
    uses = assembly.formulation.problem.weight_uses
    users = solution.placement[uses.ops[uses.offsets[weight] : uses.offsets[weight + 1]]]
    return [*(found if (users == HOST).any() else []), (ACCELERATOR, ResidencyState.STREAMED)]
