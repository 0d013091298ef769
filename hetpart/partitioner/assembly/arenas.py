"""Where values between partitions lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import Interval, most_alive, pack
from hetpart.devices import HOST
from hetpart.graph.ir import ValueRole
from hetpart.partitioner.assembly.specs import value_form
from hetpart.partitioner.assembly.wide import pack_apart
from hetpart.partitioner.problem import WHERE_USED
from hetpart.plan.model import Buffer, ValueForm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.assembly.spans import Spans
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.scores.liveness import Buffers


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """One device's."""

    buffers: tuple[Buffer, ...]
    rows: tuple[int, ...]
    """Per buffer: its row in the liveness of the run."""
    rows_beside: tuple[int, ...]
    """The rows that are not in it."""
    nbytes: int
    """Its size. It is held from the first run on."""
    beside: int
    """Most bytes alive at once of crossing values that are not in it: the caller's, and those whose size only a run can
    tell, which ONNX Runtime allocates."""

    @property
    def held_bytes(self) -> int:
        return self.nbytes + self.beside


def arenas(formulation: Formulation, held: Buffers, spans: Spans | None = None) -> tuple[Arena, ...]:
    """Every device's arena, in the problem's order.

    Graph inputs are the caller's and outputs are handed to the caller: where that is, neither takes room in an arena.

    Args:
        formulation: What is placed.
        held: When each value is held in serial order.
        spans: When each is held where lanes work at the same time: on its devices no two share bytes then either.
    """
    return tuple(device_arena(formulation, held, device, spans) for device in range(len(formulation.problem.devices)))


def device_arena(formulation: Formulation, held: Buffers, device: int, spans: Spans | None = None) -> Arena:
    """The same for one device."""
    states = is_state(formulation, held)
    rows: list[int] = np.flatnonzero((held.device == device) & ~states).tolist()
    mine = [row for row in rows if not _is_weight(formulation, held, row)]
    inside = [row for row in mine if _is_planned(formulation, int(held.value[row]), device)]
    outside = sorted(set(mine) - set(inside))
    placed = tuple(_interval(formulation, held, row) for row in inside)
    beside = tuple(_interval(formulation, held, row) for row in outside)
    if spans is None or device not in spans.devices:
        packing = pack(placed)
    else:
        packing = pack_apart([item.nbytes for item in placed], spans.met(np.array(inside, np.int64)))
    name = formulation.problem.devices[device]
    return Arena(
        tuple(
            Buffer(formulation.values[int(held.value[row])].name, name, offset, item.nbytes, item.first, item.last)
            for row, item, offset in zip(inside, placed, packing.offsets, strict=True)
        ),
        tuple(inside),
        tuple(outside),
        packing.nbytes,
        most_alive(beside),
    )


def is_state(formulation: Formulation, held: Buffers) -> NDArray[np.bool_]:
    """(rows,) Whether it is a state where it stays: it lies beside the arena, and is counted as weights are."""
    return held.at_home & (formulation.problem.kept[held.value] == WHERE_USED)


def _is_weight(formulation: Formulation, held: Buffers, row: int) -> bool:
    """Whether it is a streamed weight where it lies as such."""
    streamed = formulation.problem.streamed
    return streamed is not None and held.device[row] == HOST and bool(streamed[held.value[row]])


def _is_planned(formulation: Formulation, index: int, device: int) -> bool:
    value = formulation.values[index]
    problem = formulation.problem
    callers = device == problem.kept[index] and (value.role is ValueRole.INPUT or bool(problem.value_returned[index]))
    return not callers and value_form(value) is ValueForm.STATIC


def _interval(formulation: Formulation, held: Buffers, row: int) -> Interval:
    return Interval(int(held.first[row]), int(held.last[row]), formulation.values[int(held.value[row])].nbytes)
