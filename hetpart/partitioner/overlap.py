"""A placement cut and laid out for lanes that work at the same time.

No op moves. A cut is made finer where an early copy or an early start saves more than another session costs, and values
between partitions get room of their own where the budget has it, so that no lane waits for bytes that another uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.assembly.timeline import laid_out_wide, timeline
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.timeline.split import Worth, splits

if TYPE_CHECKING:
    from hetpart.constraints import Limits
    from hetpart.partitioner.scores.cut import Cut
    from hetpart.plan.timeline import Timeline

_LEAST_SHARE = 1e-3
"""Of the latency, that more memory must save."""


def overlapped(assembly: Assembly, limits: Limits) -> Assembly:
    """``assembly``, cut finer and laid out wider where the overlapped run gets faster within budgets and ``limits``.

    It stays as it is where a run would not overlap all the same.
    """
    problem, solution, worth = assembly.formulation.problem, assembly.solution, _worth(limits)
    base = _Choice.of(assembly)
    found = splits(problem, solution.placement, solution.cut, assembly.costs.groups, worth)
    for cut in chain.from_iterable((timed.in_order(), timed.cut) for timed in reversed(found[1:])):
        finer = _best_layout(_Choice.of(_cut_as(assembly, cut)))
        if finer.is_right and base.seconds - finer.seconds > _asked(worth, base, finer):
            return finer.assembly
    wider = _best_layout(base)
    return wider.assembly if wider.is_right else assembly


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    assembly: Assembly
    timeline: Timeline
    """Within its arenas."""
    full: frozenset[int]
    """Devices whose budget it breaks."""

    @classmethod
    def of(cls, assembly: Assembly) -> _Choice:
        full = {index for index, use in enumerate(device_uses(assembly)) if (use.headroom_bytes or 0) < 0}
        return cls(assembly, timeline(assembly), frozenset(full))

    @property
    def seconds(self) -> float:
        return self.timeline.seconds

    @property
    def fits(self) -> bool:
        return not self.full

    @property
    def is_right(self) -> bool:
        return self.fits and self.timeline.pays


def _worth(limits: Limits) -> Worth:
    gain = limits.min_gain
    return Worth(limits.max_partitions, gain.seconds, gain.share) if gain else Worth(limits.max_partitions)


def _asked(worth: Worth, base: _Choice, finer: _Choice) -> float:
    """Seconds that all the splits of ``finer`` must save together."""
    before, after = base.assembly.solution, finer.assembly.solution
    number = after.cut.partitions - before.cut.partitions
    return max(worth.least(base.seconds) * number, after.total_seconds - before.total_seconds)


def _cut_as(assembly: Assembly, cut: Cut) -> Assembly:
    problem, solution = assembly.formulation.problem, assembly.solution
    sessions = float(problem.session_seconds[cut.devices].sum())
    used = usage(problem, solution.placement, cut)
    finer = replace(solution, cut=cut, usage=used, total_seconds=solution.cost + sessions)
    return Assembly.of(assembly.graph, assembly.costs, assembly.formulation, assembly.pins, assembly.rule, finer)


def _best_layout(narrow: _Choice) -> _Choice:
    """With wider arenas on every device, or on those that have the room for it, where that is faster."""
    if not narrow.fits:
        return narrow
    everywhere = frozenset(range(len(narrow.assembly.arenas)))
    wide = _Choice.of(laid_out_wide(narrow.assembly, everywhere))
    if wide.full and wide.full != everywhere:
        wide = _Choice.of(laid_out_wide(narrow.assembly, everywhere - wide.full))
    return wide if wide.fits and narrow.seconds - wide.seconds > narrow.seconds * _LEAST_SHARE else narrow
