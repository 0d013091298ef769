"""What reports tell of a training step: the updates and lookups of every device, and what they run beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hetpart.plan.model import Decision, Plan
from hetpart.plan.timeline import Task
from hetpart.units import format_bytes, format_seconds

TITLE, REMARK = "Training", "updates, and lookups in tables that are updated by rows; predicted"
COLUMNS = ("device", "updates", ">lookups", ">predicted", ">state")
_OPERATORS, _UPDATE, _LOOKUP = "hetpart.", "update/", "lookup/"
"""How types of ops of a step begin, and the names of its updates and lookups, whose parameters follow."""
_NONE = "–"


def rows_of(plan: Plan) -> list[tuple[str, ...]]:
    """Updates and lookups of every device, with the state that lies there; none of what is no training step."""
    updates, lookups = _named(plan, _UPDATE), _named(plan, _LOOKUP)
    rows = list[tuple[str, ...]]()
    for use in plan.devices if updates else ():
        made, looked = ([found for found in some if found.device == use.device] for some in (updates, lookups))
        state = format_bytes(use.state_bytes) if use.state_bytes else _NONE
        rows.append((use.device, _optimizers(made), str(len(looked) or _NONE), _seconds([*made, *looked]), state))
    return rows


def beside(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every device that updates, and what the other lanes do meanwhile."""
    for use in plan.devices:
        mine = {decision.partition for decision in _named(plan, _UPDATE) if decision.device == use.device}
        if mine:
            yield use.device, _beside(plan, use.device, mine)


def _named(plan: Plan, start: str) -> list[Decision]:
    return [one for one in plan.decisions if one.op_type.startswith(_OPERATORS) and one.op.startswith(start)]


def _optimizers(updates: Sequence[Decision]) -> str:
    counts = Counter(decision.op_type.split(".")[1] for decision in updates)
    return ", ".join(f"{rule} ×{count}" if count > 1 else rule for rule, count in counts.items()) or _NONE


def _seconds(decisions: Sequence[Decision]) -> str:
    return format_seconds(sum(found.seconds[found.device] for found in decisions)) if decisions else _NONE


def _beside(plan: Plan, device: str, partitions: set[int]) -> str:
    """What other lanes do while the partitions that update are under way, where lanes work at the same time."""
    tasks = () if plan.timeline is None else plan.timeline.tasks
    mine = [task for task in tasks if task.lane == device and plan.partitions[task.index].id in partitions]
    shared: dict[str, float] = {}
    for other in (task for task in tasks if task.lane != device):
        seconds = sum(_overlap(task, other) for task in mine)
        if seconds:
            shared[other.lane] = shared.get(other.lane, 0.0) + seconds
    if not shared:
        return "its updates run beside nothing."
    told = ", ".join(f"{lane} for {format_seconds(seconds)}" for lane, seconds in sorted(shared.items()))
    return f"its updates run beside {told}{'' if plan.timeline and plan.timeline.pays else ', where a run overlaps'}."


def _overlap(one: Task, other: Task) -> float:
    return max(0.0, min(one.end, other.end) - max(one.start, other.start))
