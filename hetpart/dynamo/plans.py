"""Plans of one compiled graph: one that is solved for the sizes of a call, and the same placement for all sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hetpart.compiler import partition
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.support import Supports
from hetpart.errors import InfeasibleError
from hetpart.frontend.exported import pinned_as
from hetpart.pricing import load

if TYPE_CHECKING:
    from hetpart.dynamo.ledger import Ledger
    from hetpart.dynamo.options import CompileOptions
    from hetpart.frontend.model import ExportedModel
    from hetpart.graph.ir import Op
    from hetpart.partitioned import PartitionedModel

_KEPT = ("hardware", "threads", "overlap", "stream")
"""Options that do not speak of where ops are."""
_WITH_PATTERNS = ("pin", "colocate")
_OPEN = "?"


class Planner:
    """Makes plans of one graph.

    Args:
        exported: The graph.
        options: Of ``torch.compile``.
        ledger: What is left of the budget.
    """

    def __init__(self, exported: ExportedModel, options: CompileOptions, ledger: Ledger) -> None:
        self._exported, self._options, self._ledger = exported, options, ledger

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes that differ from call to call, by name, as the trace has them; without those that it leaves open."""
        return self._exported.loaded.sizes

    def solved(self, sizes: Mapping[str, int], pinned: dict[str, str]) -> PartitionedModel:
        """The plan for calls of ``sizes``, within what is left of the budget.

        Args:
            sizes: By name.
            pinned: By path, the devices of modules that ``hetpart.pin`` marks.

        Raises:
            InfeasibleError: nothing fits.
        """
        planning, notes = self._ledger.left(self._options.planning), ()
        if not planning.keys().isdisjoint(_WITH_PATTERNS):
            planning, notes = self._ledger.patterns.divided(planning, load(self._exported))
        planned = partition(self._noted(pinned, notes), shape=sizes, **planning)
        if self._options.on_plan is not None:
            self._options.on_plan(planned)
        return planned

    def _noted(self, pinned: dict[str, str], notes: tuple[str, ...]) -> ExportedModel:
        marked = pinned_as(self._exported, pinned)
        return replace(marked, loaded=replace(marked.loaded, notes=(*marked.loaded.notes, *notes)))

    def at(self, planned: PartitionedModel, sizes: Mapping[str, int]) -> PartitionedModel | None:
        """The same placement for calls of ``sizes``; ``None`` where it does not fit the budget then."""
        try:
            return self._replanned(planned, sizes)
        except InfeasibleError:
            return None

    def for_all_sizes(self, planned: PartitionedModel, sizes: Iterable[str]) -> PartitionedModel:
        """The same placement with ``sizes``, all that differ, left open, to be run. What it predicts means nothing."""
        left = dict.fromkeys(sizes, _OPEN)
        return self._replanned(planned, left) if left else planned

    def _replanned(self, planned: PartitionedModel, sizes: Mapping[str, int | str]) -> PartitionedModel:
        devices = {decision.op: decision.device for decision in planned.plan.decisions}
        pins = {f"node:{name}": devices[name] for name in sorted(self._possible(devices, sizes))}
        budget = {use.device: use.budget_bytes for use in planned.plan.devices if use.budget_bytes is not None}
        options = {name: self._options.planning[name] for name in _KEPT if name in self._options.planning}
        return partition(self._exported, shape=sizes, pin=pins, budget=budget, **options)

    def _possible(self, devices: Mapping[str, str], sizes: Mapping[str, int | str]) -> set[str]:
        """Names in ``devices`` whose ops have a kernel there with ``sizes`` too.

        With open ones a split may be one into a sequence, which only the host has.
        """
        graph = load(self._exported, shape=sizes)
        machine = load_machine(self._options.planning.get("hardware"))
        supports, places = Supports(graph, machine), [device.name for device in machine.devices]
        found: set[str] = set()
        lacking: set[str] = set()
        for op in graph.ops:
            missing = dict(zip(places, supports.of(op).missing, strict=True))
            for name in devices.keys() & set(_names(op)):
                (lacking if missing[devices[name]] else found).add(name)
        return found - lacking


def _names(op: Op) -> tuple[str, ...]:
    return (op.name,) if op.origin is None else (op.name, op.origin.name)
