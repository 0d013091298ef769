"""Rows that count the sessions on the accelerator, two of which are off the budget already.

Along a path every stretch on the accelerator is a session of its own, since partitions run one after another. So no
placement has fewer than the path that enters the accelerator most often. An op that runs apart ends a stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.partitioner.bounds.apart import between_and_inside
from hetpart.partitioner.bounds.moments import Moments, moments
from hetpart.partitioner.bounds.single import edges_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.partitioner.bounds.program import Program

COUNTED = 2
MOST_APART = 400
"""Ops up to which, where some run apart, what lies between partitions is told from what is inside them."""


def several(session: int) -> Callable[[Program], Moments]:
    """Rows of what is alive, with ``session`` bytes more in use for every session beyond two."""

    def rows(program: Program) -> Moments:
        small = program.problem.apart is not None and program.problem.ops <= MOST_APART
        return _with_sessions(program, session, between_and_inside(program) if small else moments(program))

    return rows


def _with_sessions(program: Program, session: int, alive: Moments) -> Moments:
    rows, group = alive.rows.copy(), program.of_op.tolist()
    most = program.budget // session + 1
    further = program.variables + 1 + alive.extra
    begun = range(further + 1, further + 1 + len(group))
    step = 1.0 / (most + COUNTED)
    counts: list[bool] = program.problem.in_sessions.tolist()
    for op, variable in enumerate(begun):
        if counts[op]:
            rows.add([(variable, 1.0), (group[op], -step)], 0.0)
        rows.add([(further, most * step), (variable, -1.0)], -COUNTED * step)
    for maker, user in edges_of(program):
        never_falls = [(begun[user], 1.0), (begun[maker], -1.0)]
        rows.add(never_falls, 0.0)
        if counts[user] and not counts[maker]:
            rows.add([*never_falls, (group[user], -step)], 0.0)
        elif counts[user] and group[user] != group[maker]:
            rows.add([*never_falls, (group[user], -step), (group[maker], step)], 0.0)
    held = -program.unit * session * most
    rows.add([(program.variables, -1.0)], -program.unit * program.budget)
    caps = (*alive.caps, len(rows.least) - 1)
    for cap in caps:
        rows.extend(cap, further, held)
    return Moments(rows, alive.extra + 1 + len(group), caps)
