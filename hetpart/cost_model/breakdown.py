"""Costs → rows: every op, or the ops of a type or module together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import TYPE_CHECKING, Any

from hetpart.cost_model.roofline import Bound
from hetpart.errors import InvalidOptionError
from hetpart.graph.ir import Op

if TYPE_CHECKING:
    from hetpart.cost_model.annotate import Costs, OpCost


class By(StrEnum):
    """What a row stands for."""

    OP = "op"
    TYPE = "type"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True)
class OnDevice:
    """What a row's ops cost on one device."""

    device: str
    seconds: float | None
    """Of the ops that have a kernel there; None where none has."""
    bound: Bound | None
    """What most of ``seconds`` is bound by."""
    bound_seconds: dict[Bound, float]
    """``seconds`` by what bounds them."""
    ops_without_kernel: int


@dataclass(frozen=True, slots=True)
class Row:
    """The work of some ops, and what it costs on every device."""

    name: str
    """The op's, the type's or the module's; ``""`` is of ops outside any module."""
    op_type: str
    """With its domain where that is not ``ai.onnx``; ``""`` where the ops are of several types."""
    scope: str
    ops: int
    flops: float
    bytes_read: int
    bytes_written: int
    intensity: float
    """Flops per byte read or written; 0 where there is none. Fusion saves bytes that count here."""
    seconds: float
    """With every op on the device that is fastest for it, and no copies between devices."""
    devices: tuple[OnDevice, ...]
    reason: str
    """Of a single op: what bounds it, and how the devices compare."""

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    def flat(self) -> dict[str, Any]:
        """The row as columns, those of a device behind its name."""
        columns: dict[str, Any] = {
            "name": self.name,
            "op_type": self.op_type,
            "scope": self.scope,
            "ops": self.ops,
            "flops": self.flops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "intensity": self.intensity,
            "seconds": self.seconds,
        }
        for there in self.devices:
            columns[f"{there.device} seconds"] = there.seconds
            columns[f"{there.device} bound"] = there.bound and str(there.bound)
            columns[f"{there.device} ops_without_kernel"] = there.ops_without_kernel
        return columns | {"reason": self.reason}


def rows_of(costs: Costs, by: str = By.OP, depth: int | None = None) -> tuple[Row, ...]:
    """A row for every op, type or module, in the order they come in the graph.

    Args:
        costs: What the ops cost.
        by: ``"op"``, ``"type"`` or ``"scope"``.
        depth: Names of a module's path that tell it from others: at 2, all of ``encoder.layer.0.…`` is in
            ``encoder.layer``. None takes the whole path, as ops and types do.

    Raises:
        InvalidOptionError: ``by`` is none of these, or ``depth`` is not positive or not of modules.
    """
    if by not in tuple(By) or (depth is not None and (depth < 1 or depth != int(depth))):
        raise InvalidOptionError(f"cannot group by {by!r} at depth {depth}", hint="by op, type or scope; depth from 1")
    if by != By.SCOPE and depth is not None:
        raise InvalidOptionError(f"a depth of {depth} says nothing of a row for every {by}", hint='group by="scope"')
    if by == By.OP:
        return tuple(_rows_of_ops(costs))
    groups: dict[str, list[Op]] = {}
    for op in costs.graph.ops:
        key = qualified_type(op) if by == By.TYPE else scope_at(op.scope, depth)
        groups.setdefault(key, []).append(op)
    return tuple(_row(name, ops, costs) for name, ops in groups.items())


def ranked(rows: Iterable[Row], key: str = "time") -> list[Row]:
    """The rows with the largest first, by ``time``, ``bytes``, ``flops``, ``intensity`` or the time on a device.

    Raises:
        InvalidOptionError: ``key`` is none of these.
    """
    found = list(rows)
    order = ORDERS.get(key)
    if order is not None:
        return sorted(found, key=order, reverse=True)
    devices = [there.device for there in found[0].devices] if found else [key]
    if key not in devices:
        known = ", ".join([*ORDERS, *devices])
        raise InvalidOptionError(f"cannot sort by {key!r}", hint=f"sort by {known}")
    return sorted(found, key=lambda row: _seconds_on(row, key), reverse=True)


def _seconds_on(row: Row, device: str) -> float:
    return next(there.seconds or 0.0 for there in row.devices if there.device == device)


ORDERS: Mapping[str, Callable[[Row], float]] = {
    "time": lambda row: row.seconds,
    "bytes": lambda row: row.bytes_moved,
    "flops": lambda row: row.flops,
    "intensity": lambda row: row.intensity,
}
"""What rows are sorted by, beside the time on a device of the machine."""


def total_of(costs: Costs) -> Row:
    """All ops in one row."""
    return _row(costs.graph.name, costs.graph.ops, costs)


def qualified_type(op: Op) -> str:
    """The op's type, behind its domain where that is not ``ai.onnx``."""
    return f"{op.domain}.{op.op_type}" if op.domain else op.op_type


def scope_at(scope: str, depth: int | None) -> str:
    """The first ``depth`` names of a module's path."""
    return scope if depth is None else ".".join(scope.split(".")[:depth])


def _rows_of_ops(costs: Costs) -> Iterator[Row]:
    """``_row`` of every op by itself. What devices take is looked at once of ops that share it."""
    names = [device.name for device in costs.machine.devices]
    known: dict[tuple[int, int, int], tuple[OnDevice, ...]] = {}
    for op in costs.graph.ops:
        cost = costs.ops[op.id]
        work, moved = cost.work, cost.work.bytes_read + cost.work.bytes_written
        key = id(cost.seconds), id(cost.estimates), id(cost.missing)
        devices = known.get(key)
        if devices is None:
            devices = known[key] = tuple(_on(index, name, [cost]) for index, name in enumerate(names))
        yield Row(
            name=op.name,
            op_type=qualified_type(op),
            scope=op.scope,
            ops=1,
            flops=float(work.flops),
            bytes_read=work.bytes_read,
            bytes_written=work.bytes_written,
            intensity=work.flops / moved if moved else 0.0,
            seconds=0.0 if all(cost.missing) else min(cost.seconds),
            devices=devices,
            reason=cost.reason,
        )


def _row(name: str, ops: Sequence[Op], costs: Costs) -> Row:
    found = [costs.ops[op.id] for op in ops]
    flops = fsum(cost.work.flops for cost in found)
    read, written = (sum(cost.work.bytes_read for cost in found), sum(cost.work.bytes_written for cost in found))
    able = (cost for cost in found if not all(cost.missing))
    return Row(
        name=name,
        op_type=_shared(map(qualified_type, ops)),
        scope=_shared(op.scope for op in ops),
        ops=len(ops),
        flops=flops,
        bytes_read=read,
        bytes_written=written,
        intensity=flops / (read + written) if read + written else 0.0,
        seconds=fsum(min(cost.seconds) for cost in able),
        devices=tuple(_on(index, device.name, found) for index, device in enumerate(costs.machine.devices)),
        reason=found[0].reason if len(found) == 1 else "",
    )


def _shared(texts: Iterable[str]) -> str:
    """The text they all are; ``""`` where they differ."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""


def _on(index: int, device: str, costs: Sequence[OpCost]) -> OnDevice:
    parts: dict[Bound, list[float]] = {}
    lacking = 0
    for cost in costs:
        if cost.missing[index]:
            lacking += 1
        else:
            parts.setdefault(cost.estimates[index].bound, []).append(cost.seconds[index])
    bound_seconds = {bound: fsum(seconds) for bound, seconds in parts.items()}
    return OnDevice(
        device=device,
        seconds=fsum(bound_seconds.values()) if bound_seconds else None,
        bound=max(bound_seconds, key=bound_seconds.__getitem__, default=None),
        bound_seconds=bound_seconds,
        ops_without_kernel=lacking,
    )
