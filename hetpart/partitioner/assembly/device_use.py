"""What every device holds at its peak, and what is alive then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.arenas import is_state
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.plan.figures import AliveValue, DeviceUse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.assembly.assemble import Assembly

_MOST_ALIVE = 100
"""Values a plan names; a report shows fewer."""


def device_uses(assembly: Assembly) -> tuple[DeviceUse, ...]:
    """What each device holds at its peak, everything counted, and how long it computes."""
    return tuple(_device_use(assembly, index) for index in range(len(assembly.device_names)))


def excess(assembly: Assembly) -> NDArray[np.int64]:
    """(D,) Bytes that each device takes beyond its budget."""
    budgets = assembly.formulation.problem.budgets
    return np.where(budgets == NO_BUDGET, 0, np.maximum(np.array(peaks(assembly), np.int64) - budgets, 0))


def peaks(assembly: Assembly) -> list[int]:
    """Bytes that each device holds at most."""
    return [use.peak_bytes for use in device_uses(assembly)]


def _device_use(assembly: Assembly, index: int) -> DeviceUse:
    device = assembly.costs.machine.devices[index]
    problem, solution = assembly.formulation.problem, assembly.solution
    used = solution.usage
    mine = solution.placement == index
    budget = int(problem.budgets[index])
    held_bytes = assembly.arenas[index].held_bytes
    peak_partition, alive = _alive_at_peak(assembly, index)
    here = solution.cut.devices == index
    activations = int(assembly.activations[here].max(initial=0))
    expected = assembly.expected
    states = _state_bytes(assembly, index)
    return DeviceUse(
        device=device.name,
        model=device.model,
        provider=str(device.provider),
        memory_bytes=device.memory_bytes,
        budget_bytes=None if budget == NO_BUDGET else budget,
        peak_bytes=int(used.weights[index] + activations + used.sessions[index]) + held_bytes,
        weight_bytes=int(used.weights[index]) - states,
        buffer_bytes=held_bytes,
        activation_bytes=activations,
        session_bytes=int(used.sessions[index]),
        peak_partition=peak_partition,
        alive_at_peak=alive,
        seconds=float(problem.seconds[index, mine].sum()),
        ops=int(mine.sum()),
        expected_activation_bytes=None if expected is None else int(expected[here].max(initial=0)),
        state_bytes=states,
    )


def _state_bytes(assembly: Assembly, index: int) -> int:
    """They come behind the weights and those of bodies."""
    problem, formulation = assembly.formulation.problem, assembly.formulation
    first = len(formulation.weights) + formulation.inside
    held = problem.held(assembly.solution.placement)[index, first:]
    return int(held @ problem.weight_bytes[first:])


def _alive_at_peak(assembly: Assembly, device: int) -> tuple[int | None, tuple[AliveValue, ...]]:
    """The partition that runs when most is alive on ``device``, and the largest values held across borders then."""
    cut, held = assembly.solution.cut, assembly.held
    here = [partition for partition in range(cut.partitions) if cut.devices[partition] == device]
    if not here:
        return None, ()
    mine = (held.device == device) & ~is_state(assembly.formulation, held)

    def alive(step: int) -> NDArray[np.int64]:
        return np.flatnonzero(mine & (held.first <= step) & (step <= held.last))

    inside = assembly.activations
    peak = max(here, key=lambda step: (int(held.nbytes[alive(step)].sum() + inside[step]), -step))
    values = assembly.formulation.values
    largest = sorted(
        (AliveValue(values[int(held.value[r])].name, int(held.nbytes[r])) for r in alive(peak)), key=_by_size
    )
    return peak, tuple(largest[:_MOST_ALIVE])


def _by_size(value: AliveValue) -> tuple[int, str]:
    return -value.nbytes, value.name
