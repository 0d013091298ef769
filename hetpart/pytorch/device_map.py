# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The nearest map from modules to devices, for those who place by module, and what such a map cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.frontend.weights import names_of_each
from hetpart.plan.model import ResidencyState
from hetpart.pytorch.placed import add_up, add_work, busiest
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetpart.frontend.model import ExportedModel
    from hetpart.graph.ir import Graph
    from hetpart.plan.model import Plan

_SHOWN = 3


class DeviceMap(dict[str, int | str]):
    """Path of a module or a weight → device, as Accelerate's ``dispatch_model`` and ``from_pretrained`` take it."""

    losses: tuple[str, ...] = ()
    """What the plan has and the map cannot say."""


def device_map(exported: ExportedModel, plan: Plan, graph: Graph) -> DeviceMap:
    """Every module that owns weights on the device that does most of the work on them; what agrees is one entry.

    Where a module has weights of its own beside children elsewhere, those have entries of their own, as Accelerate's
    ``infer_auto_device_map`` names them: an entry of the module would be one of all that is inside it.
    """
    weights = sorted(exported.program.state_dict)
    work = _work_by_weight(weights, exported.tied, plan, graph)
    owned: dict[str, dict[str, float]] = {}
    for weight in weights:
        add_up(owned.setdefault(_owner(weight), {}), work.get(weight, {}))
    usual = max(plan.devices, key=lambda use: use.ops).device
    merged = _merged({weight: busiest(owned[_owner(weight)] or {usual: 0.0}) for weight in weights})
    made = DeviceMap((module, accelerate_name(device)) for module, device in merged.items())
    made.losses = tuple(_losses(plan, merged))
    return made


def _owner(weight: str) -> str:
    return weight.rpartition(".")[0]


def _work_by_weight(
    weights: Sequence[str], tied: Mapping[str, str], plan: Plan, graph: Graph
) -> dict[str, dict[str, float]]:
    """By weight, the predicted seconds of the ops that read it, by device.

    Of one with several names, which is one in the graph, an op counts for the names that its own module has: those of
    an embedding have the lookup, those of a head the product. What lies in none of these modules counts for all.
    """
    names_of = names_of_each(weights, tied)
    decisions = {decision.op: decision for decision in plan.decisions}
    work: dict[str, dict[str, float]] = {}
    for op in graph.ops:
        used = (graph.values[value] for value in op.uses)
        read = {name for value in used if value.is_constant for name in (value.name, *value.sources)}
        for names in {names_of[name] for name in read & names_of.keys()} if op.name in decisions else ():
            for name in _own_names(names, op.scope):
                add_work(work.setdefault(name, {}), decisions[op.name])
    return work


def _own_names(names: Sequence[str], scope: str) -> Sequence[str]:
    """Of ``names`` those of the innermost module that ``scope`` lies in, or all where it lies in none of theirs."""
    modules = [owner for owner in map(_owner, names) if not owner or f"{scope}.".startswith(f"{owner}.")]
    innermost = max(modules, key=len, default=None)
    return [name for name in names if _owner(name) == innermost] or names


def _merged(devices: Mapping[str, str]) -> dict[str, str]:
    """The fewest entries that say the same of weights: a module in the place of all that is inside it."""
    merged: dict[str, str] = {}

    def settle(prefix: str, inside: Mapping[str, str]) -> None:
        if len(set(inside.values())) == 1:
            merged[prefix] = next(iter(inside.values()))
            return
        groups: dict[str, dict[str, str]] = {}
        depth = prefix.count(".") + 1 if prefix else 0
        for weight, device in inside.items():
            groups.setdefault(".".join(weight.split(".")[: depth + 1]), {})[weight] = device
        for name, group in groups.items():
            settle(name, group)

    if devices:
        settle("", devices)
    return merged


def accelerate_name(device: str) -> int | str:
    """Accelerate's name of a device: CUDA devices by their number."""
    kind, _, number = device.partition(":")
    return int(number) if kind == "cuda" and number.isdigit() else device


def _losses(plan: Plan, devices: Mapping[str, str]) -> Iterator[str]:
    elsewhere = [decision for decision in plan.decisions if _mapped(decision.scope, devices) != decision.device]
    if elsewhere:
        seconds = sum(decision.seconds.get(decision.device, 0.0) for decision in elsewhere)
        shown = ", ".join(dict.fromkeys(decision.op for decision in elsewhere[:_SHOWN]))
        yield (
            f"{format_count(len(elsewhere), 'op')} of {format_seconds(seconds)} run elsewhere than the rest of their"
            f" module: {shown}{' …' if len(elsewhere) > _SHOWN else ''}"
        )
    streamed = [held.nbytes for held in plan.residencies if held.state is ResidencyState.STREAMED]
    if streamed:
        yield f"{format_count(len(streamed), 'weight')} ({format_bytes(sum(streamed))}) are copied in every run"
    if "cpu" in devices.values() and len(set(devices.values())) > 1:
        yield "Accelerate copies weights that are on the cpu to the accelerator in every call; the plan computes there"


def _mapped(scope: str, devices: Mapping[str, str]) -> str:
    """The device of the innermost module in the map that the scope lies in."""
    names = scope.split(".") if scope else []
    prefixes = (".".join(names[:length]) for length in range(len(names), -1, -1))
    return next((devices[prefix] for prefix in prefixes if prefix in devices), "")
