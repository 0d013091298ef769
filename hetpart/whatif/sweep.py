"""How latency falls as the budget grows, on one machine or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from hetpart.budgets import Budget
from hetpart.constraints import Constraints
from hetpart.devices import ACCELERATOR
from hetpart.errors import InfeasibleError
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.assembly.write import footprint
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.tradeoff import Tradeoff
from hetpart.plan.curves import Curve, CurvePoint, Sweep, TargetBudget
from hetpart.request import Priced, Request, RequestOptions, require
from hetpart.units import format_bytes, parse_seconds
from hetpart.whatif.budgets import Budgets, BudgetsOption, budget_points, parse_budgets

if TYPE_CHECKING:
    from hetpart.devices import Device, Machine
    from hetpart.frontend.model import Model
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.formulate import Formulation

HardwareOption = Sequence[str | PathLike[str]] | str | PathLike[str] | None
"""Machines: a sequence, or names with commas between them."""
Progress = Callable[[str], None]

TIME_LIMIT = 5.0
"""Seconds of search under every budget where none are given."""


@dataclass(frozen=True, slots=True, eq=False)
class SweptModel:
    """Latency against budget, and how it is shown."""

    sweep: Sweep

    @property
    def curves(self) -> tuple[Curve, ...]:
        return self.sweep.curves

    def report(self, *, width: int = 100) -> str:
        """The curves as tables, as text."""
        from hetpart.report.layout import plain
        from hetpart.report.sweep_text import sweep_parts

        return plain(sweep_parts(self.sweep), width)

    def plot(self, path: str | PathLike[str]) -> Path:
        """Draw the curves into an SVG or a PNG, by the name of ``path``."""
        from hetpart.report.plots.sweep import plot_sweep

        plot_sweep(self.sweep, Path(path))
        return Path(path)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of every machine."""

    request: Request
    budgets: Budgets
    points: int | None
    target: float | None


def sweep(
    model: Model,
    *,
    budgets: BudgetsOption = None,
    points: int | None = None,
    hardware: HardwareOption = None,
    target: str | float | None = None,
    progress: Progress | None = None,
    **options: Unpack[RequestOptions],
) -> SweptModel:
    """The predicted latency of ``model`` under one budget after another, each with its lower bound.

    Args:
        model: An ``.onnx`` or ``.pt2`` file, or a model in memory, PyTorch's too.
        budgets: Of the accelerator: ``"2GB:24GB"``, ``"2GB,4GB,8GB"``, a sequence; by default from none to all of
            the model's footprint.
        points: How many budgets of a range; by default about a dozen round ones.
        hardware: One machine or several: ``"l4,t4,h100"`` or a sequence; by default this machine.
        target: A latency to reach, ``"20ms"`` or seconds: the smallest budget that does is looked for.
        progress: Called with the name of every stage as it begins.
        **options: Those of ``hetpart.partition``; ``time_limit`` is for every budget on average, 5 seconds by default.

    Raises:
        InvalidModelError: The model cannot be read, or an op runs nowhere.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: An option cannot be understood.
        InfeasibleError: Nothing fits any of the budgets.
    """
    say = progress or _silent
    request = Request.of(None, RequestOptions(time_limit=TIME_LIMIT) | options)
    question = _Question(request, parse_budgets(budgets), points, _seconds(target))
    specs = _machines(hardware)
    machines = [question.request.machine(spec) for spec in specs]
    say("reading the model")
    imported = question.request.read(model)
    curves = [
        _curve(question, imported, str(spec or "default"), machine, say)
        for spec, machine in zip(specs, machines, strict=True)
    ]
    _require_one(curves, imported.name)
    return SweptModel(_swept(imported, question, curves))


def _silent(stage: str) -> None:
    del stage


def _swept(imported: ImportedModel, question: _Question, curves: list[Curve]) -> Sweep:
    graph = imported.graph
    return Sweep(
        model=imported.name,
        path=str(imported.path or ""),
        ops=len(graph.ops),
        weight_bytes=sum(weight.nbytes for weight in graph.weights),
        dimensions=dict(graph.dimensions),
        target_seconds=question.target,
        curves=tuple(curves),
        notes=imported.notes,
    )


def _seconds(target: str | float | None) -> float | None:
    if target is None:
        return None
    seconds = parse_seconds(target) if isinstance(target, str) else float(target)
    require(seconds > 0, "target", target, "it is a latency, such as 20ms")
    return seconds


def _machines(hardware: HardwareOption) -> list[str | PathLike[str] | None]:
    if hardware is None:
        return [None]
    if isinstance(hardware, str):
        hardware = [name.strip() for name in hardware.split(",") if name.strip()]
    specs = list(hardware) if isinstance(hardware, Sequence) else [hardware]
    require(bool(specs), "hardware", hardware, "name one machine or several: l4,t4,h100")
    return list(dict.fromkeys(specs))


def _curve(question: _Question, imported: ImportedModel, hardware: str, machine: Machine, say: Progress) -> Curve:
    request, device = question.request, machine.accelerators[0]
    say(f"pricing its operators for {hardware}")
    priced = request.priced(imported.graph, machine)
    budgets = request.resolved_budgets(machine)
    formulation = priced.formulated(budgets.nbytes)
    everything = _everything(priced, formulation)
    asked = budget_points(
        question.budgets,
        question.points,
        lambda budget: _bytes_of(request, budget, machine, device),
        lambda: min(device_uses(everything)[ACCELERATOR].peak_bytes, device.memory_bytes),
    )
    tradeoff = Tradeoff(
        formulation, lambda asked, seconds: priced.placed(asked, time_limit=seconds), request.time_limit
    )
    used = {_used(request, budget): budget for budget in asked}
    tradeoff.solve(used, lambda far: say(f"placing them on {hardware}, budget {far}"))
    target = None if question.target is None else _around(request, tradeoff.target(question.target))
    return Curve(
        hardware=hardware,
        machine=machine.name,
        origin=machine.origin,
        device=device.name,
        memory_bytes=device.memory_bytes,
        footprint_bytes=footprint(everything),
        points=tuple(
            replace(point, budget_bytes=used[point.budget_bytes], required_bytes=_needed(request, point))
            for point in tradeoff.points(used)
        ),
        target=target,
        notes=(*_capped(question.budgets, device), *priced.costs.notes),
    )


def _everything(priced: Priced, formulation: Formulation) -> Assembly:
    """All that may be on the accelerator there, whatever it takes."""
    problem = formulation.problem
    unlimited = replace(formulation, problem=replace(problem, budgets=np.full_like(problem.budgets, NO_BUDGET)))
    free = replace(priced, request=replace(priced.request, constraints=Constraints()))
    return free.placed(unlimited, "all-accelerator")


def _bytes_of(request: Request, budget: Budget, machine: Machine, device: Device) -> int:
    """Bytes of ``budget``, headroom and all."""
    whole = replace(request, budgets=(budget,), constraints=replace(request.constraints, headroom=None))
    return whole.resolved_budgets(machine).nbytes[device.name]


def _used(request: Request, budget: int) -> int:
    headroom = request.constraints.headroom
    return budget if headroom is None else max(0, budget - headroom.of(budget))


def _need(request: Request, used: int | None) -> int | None:
    headroom = request.constraints.headroom
    return used if used is None or headroom is None else headroom.around(used)


def _needed(request: Request, point: CurvePoint) -> int | None:
    """Headroom is of the budgets of the curve."""
    return point.required_bytes if point.required_on else _need(request, point.required_bytes)


def _around(request: Request, target: TargetBudget) -> TargetBudget:
    return replace(
        target,
        budget_bytes=_need(request, target.budget_bytes),
        too_small_bytes=_need(request, target.too_small_bytes),
    )


def _capped(budgets: Budgets, device: Device) -> tuple[str, ...]:
    """Says that budgets beyond the device's memory were asked for."""
    listed = budgets if isinstance(budgets, tuple) else () if budgets is None else (budgets.low, budgets.high)
    largest = max((budget.amount for budget in listed if isinstance(budget.amount, int)), default=0)
    if largest <= device.memory_bytes:
        return ()
    return (f"{device.model} has {format_bytes(device.memory_bytes)}: larger budgets are left out",)


def _require_one(curves: Sequence[Curve], name: str) -> None:
    points = [point for curve in curves for point in curve.points]
    if any(point.fits for point in points):
        return
    least = min(points, key=lambda point: point.required_bytes or 0)
    required, where = least.required_bytes or 0, least.required_on
    largest = max(point.budget_bytes for point in points)
    raise InfeasibleError(
        f"{name!r} fits none of the budgets, the largest being {format_bytes(largest)}: {required:,} bytes are needed "
        f"{f'on {where} ' if where else ''}as far as is found",
        required_bytes=required,
        device=where,
        hint=f"raise the budget of {where} to {format_bytes(required)}"
        if where
        else f"ask for budgets from {format_bytes(required)} on; which ops fill the device is what "
        f"`hetpart partition --budget {largest}` says",
    )
