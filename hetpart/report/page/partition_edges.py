"""What a partition graph shows: partitions, the caller before and after them, and what passes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetpart.plan.homes import home
from hetpart.plan.model import Partition, Plan, Transfer
from hetpart.plan.predicted import Place, touched
from hetpart.plan.timeline import TaskKind
from hetpart.report.escape import printable
from hetpart.units import format_bytes

_NAMED = 8


@dataclass(frozen=True, slots=True)
class Node:
    """A box: a partition, or the caller at the start or the end of a run."""

    row: int
    device: int
    """Place of it in ``Plan.devices``."""
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """Values that are copied from one box to another. Ends are rows."""

    source: int
    target: int
    copies: tuple[Transfer, ...]

    @property
    def size(self) -> str:
        number = f" in {len(self.copies):,}" if len(self.copies) > 1 else ""
        return f"{format_bytes(sum(copy.nbytes for copy in self.copies))}{number}"

    @property
    def milliseconds(self) -> str:
        return f"{sum(copy.seconds for copy in self.copies) * 1e3:,.3f} ms"

    @property
    def values(self) -> str:
        shown = ", ".join(printable(copy.value) for copy in self.copies[:_NAMED])
        rest = len(self.copies) - _NAMED
        return f"{shown} and {rest:,} more" if rest > 0 else shown


@dataclass(frozen=True, slots=True)
class PartitionGraph:
    """The first partitions of a plan between the caller's two boxes."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    flows: tuple[tuple[int, int], ...]
    """Rows of boxes on one device that hand on a value."""

    @classmethod
    def of(cls, plan: Plan, most: int) -> PartitionGraph:
        """The caller is on the host; what comes from or goes to a partition that is not shown is left out."""
        shown = plan.partitions[:most]
        places = {use.device: place for place, use in enumerate(plan.devices)}
        boxes = (Node(row, places[partition.device], partition) for row, partition in enumerate(shown, 1))
        nodes = (Node(0, 0), *boxes, Node(len(shown) + 1, 0))
        makers = {place: row for row in range(1, len(plan.partitions) + 1) for place in _touched(plan, row)[0]}
        return cls(nodes, tuple(_arrows(plan, nodes, makers)), tuple(_flows(plan, nodes, makers)))


def _arrows(plan: Plan, nodes: Sequence[Node], makers: Mapping[Place, int]) -> list[Arrow]:
    """One for all copies that have both ends in common."""
    users = _users(plan, nodes)
    grouped: dict[tuple[int, int], list[Transfer]] = {}
    for copy in plan.transfers:
        source = makers.get((copy.value, copy.source), 0)
        target = next((row for row in users.get((copy.value, copy.target), ()) if row > source), None)
        if source < len(nodes) - 1 and target is not None:
            grouped.setdefault((source, target), []).append(copy)
    return [Arrow(*ends, tuple(copies)) for ends, copies in sorted(grouped.items())]


def _flows(plan: Plan, nodes: Sequence[Node], makers: Mapping[Place, int]) -> list[tuple[int, int]]:
    """From what makes a value to all that read it; from and to the caller once."""
    given, returned = _given(plan, nodes), _returned(plan, nodes, makers)
    read = ((makers.get(place), node.row) for node in nodes[1:-1] for place in _touched(plan, node.row)[1])
    within = {(source, row) for source, row in read if source is not None and _stays(nodes, source, row)}
    return sorted(within | given | returned)


def _given(plan: Plan, nodes: Sequence[Node]) -> set[tuple[int, int]]:
    """From the caller to the first that reads an input where it is given."""
    users = _users(plan, nodes)
    first = (users.get((spec.name, home(plan, spec.name)), ()) for spec in plan.inputs)
    rows = [rows[0] for rows in first if rows and _stays(nodes, 0, rows[0])]
    return {(0, min(rows))} if rows else set()


def _returned(plan: Plan, nodes: Sequence[Node], makers: Mapping[Place, int]) -> set[tuple[int, int]]:
    """From the last that makes an output where it is handed over to the caller."""
    last = len(nodes) - 1
    made = (makers.get((spec.name, home(plan, spec.name))) for spec in plan.outputs)
    rows = [row for row in made if row is not None and row < last and _stays(nodes, row, last)]
    return {(max(rows), last)} if rows else set()


def _stays(nodes: Sequence[Node], source: int, row: int) -> bool:
    return source < row and nodes[source].device == nodes[row].device


def _users(plan: Plan, nodes: Sequence[Node]) -> Mapping[Place, list[int]]:
    """Rows that read each value, ascending; the caller last."""
    users: dict[Place, list[int]] = {}
    for node in nodes[1:-1]:
        for place in _touched(plan, node.row)[1]:
            users.setdefault(place, []).append(node.row)
    for spec in plan.outputs:
        users.setdefault((spec.name, home(plan, spec.name)), []).append(len(nodes) - 1)
    return users


def _touched(plan: Plan, row: int) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """What the partition of a row makes and reads, and where that lies."""
    return touched(plan, TaskKind.PARTITION, row - 1)
