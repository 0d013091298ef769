"""The one place that composes the stages: model → graph → costs → placement → plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.config import BudgetOption, PinOption, ShapeOption, parse_budget, parse_pins, parse_shapes, resolve_budgets
from hetpart.cost_model.annotate import annotate as price
from hetpart.cost_model.assumptions import AccessOption, TripOption, parse_assumptions
from hetpart.cost_model.machines import free_memory_bytes, load_machine
from hetpart.errors import InvalidOptionError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph
from hetpart.partitioner.formulate import formulate
from hetpart.partitioner.pins import resolve_pins
from hetpart.partitioner.place import place
from hetpart.partitioner.source import read_source
from hetpart.partitioner.write import model_reference, write_plan

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Plan
    from hetpart.runtime.session import Session

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class PartitionedModel:
    """A model and the plan that was made for it."""

    plan: Plan
    graph: Graph
    costs: Costs
    imported: ImportedModel

    def report(self, *, width: int = 100) -> str:
        """The placement report as text."""
        from hetpart.report.text import render

        return render(self.plan, width=width)

    def save(self, path: str | PathLike[str], *, self_contained: bool = False) -> Path:
        """Write the bundle to ``path``; weights stay where they are unless ``self_contained``."""
        from hetpart.plan.bundle import write_bundle

        return write_bundle(Path(path), self.plan, self._models(), self_contained=self_contained)

    def session(self, *, emulate: bool = False, threads: int | None = None) -> Session:
        """A session that runs the plan; with ``emulate``, accelerator partitions run on the CPU provider."""
        from hetpart.runtime.session import Session

        return Session(self._bundle(), emulate=emulate, threads=threads)

    def _models(self) -> list[onnx.ModelProto]:
        from hetpart.plan.cut_models import cut_models

        return list(cut_models(self.imported.proto, self.plan))

    def _bundle(self) -> Bundle:
        from hetpart.plan.bundle import Bundle
        from hetpart.plan.fingerprint import verify_files

        reference = self.plan.model
        folder = Path(reference.folder) if reference.folder else None
        if folder is not None:
            verify_files(folder, reference.files)
        models = tuple(model.SerializeToString(deterministic=True) for model in self._models())
        return Bundle(self.plan, models, folder)


def load(model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model, *, shape: ShapeOption = None) -> Graph:
    """The graph of ``model`` as hetpart sees it: dimensions bound, shape arithmetic folded, no weight read.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
    """
    return import_onnx(model, parse_shapes(shape)).graph


def annotate(
    model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model | Graph,
    *,
    hardware: str | PathLike[str] | None = None,
    shape: ShapeOption = None,
    threads: int = 0,
    trip_count: TripOption = None,
    access: AccessOption = None,
) -> Costs:
    """What every op of ``model`` costs on every device of ``hardware``, and why. ``ops[i]`` is op ``i`` of ``load``.

    A graph that ``load`` gave is taken as it is. ``trip_count`` and ``access`` are those of ``partition``.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: The hardware is unknown, or an option cannot be understood.
    """
    assumptions = parse_assumptions(trip_count, access)
    machine = load_machine(hardware, threads=threads)
    if not isinstance(model, Graph):
        model = load(model, shape=shape)
    elif shape:
        raise InvalidOptionError("the shape of a graph is bound already", hint="give shape= to hetpart.load")
    return price(model, machine, assumptions)


def partition(  # noqa: PLR0913 - the options are what users type
    model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model,
    *,
    budget: BudgetOption = None,
    hardware: str | PathLike[str] | None = None,
    shape: ShapeOption = None,
    pin: PinOption = None,
    placement: str | PathLike[str] | Mapping[str, str] = "optimal",
    threads: int = 0,
    trip_count: TripOption = None,
    access: AccessOption = None,
    time_limit: float = 30.0,
    verify: str = "sampled",
    progress: Progress | None = None,
) -> PartitionedModel:
    """Decide which device runs every op of ``model``.

    Args:
        model: An ``.onnx`` file, or a model in memory.
        budget: Bytes of the accelerator that may be used, everything counted: ``"16GB"``, ``"80%"``, ``"auto"`` (the
            default: what is free less 5 %), ``"cuda:0=16GB"``, or several of these.
        hardware: ``"l4"``, ``"h100+epyc"``, a TOML file; by default this machine.
        shape: Numbers for symbolic dimensions: ``{"batch": 8}`` or ``"batch=8,seq=128"``.
        pin: Ops the user places: ``"encoder.layer.0.*=cpu"``, ``"op:Gather=cpu"``, ``"node:/fc/MatMul=cuda:0"``.
        placement: ``"optimal"``, ``"random:SEED"``, ``"all-cpu"``, ``"all-accelerator"``, ``"fill-in-order"``,
            or a file, or what such a file holds: ``{"op name": "cpu"}``.
        threads: Threads of the host's lane; 0 leaves it to the machine.
        trip_count: How often loops run where no shape tells: ``{"decoder/loop*": 32}`` or ``"decoder/loop*=32"``.
        access: How likely a run touches a weight or an expert: ``{"experts.3.*": 0.25}``, or a JSON file of the kind.
        time_limit: Seconds after which the search returns the best it has.
        verify: ``"full"`` records a digest of every byte of the weight files, ``"sampled"`` of some blocks.
        progress: Called with the name of every stage as it begins.

    Raises:
        InvalidModelError: The model cannot be read, or an op runs nowhere.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: An option cannot be understood.
        InfeasibleError: Nothing fits the budget.
    """
    say = progress or _silent
    _require_options(hardware, threads, time_limit, verify)
    machine = load_machine(hardware, threads=threads)
    asked_budgets, asked_pins = parse_budget(budget), parse_pins(pin)
    budgets = resolve_budgets(asked_budgets, machine, free_memory_bytes(machine))
    shapes, assumptions = parse_shapes(shape), parse_assumptions(trip_count, access)
    say("reading the model")
    imported = import_onnx(model, shapes)
    say("pricing its operators")
    costs = price(imported.graph, machine, assumptions)
    pins = resolve_pins(asked_pins, imported.graph, machine)
    formulation = formulate(imported.graph, costs, pins, budgets.nbytes)
    say("placing them")
    source = read_source(placement, imported.graph, formulation.problem)
    assembly = place(imported.graph, costs, formulation, source, pins, time_limit)
    say("fingerprinting the weights")
    options = {
        "budget": " ".join(asked.text for asked in asked_budgets) or "auto",
        "hardware": str(hardware or "default"),
        "pin": " ".join(asked.text for asked in asked_pins),
        "placement": "mapping" if isinstance(placement, Mapping) else str(placement),
        "shape": ",".join(f"{name}={size}" for name, size in shapes.items()),
        "threads": str(threads),
        **assumptions.options(),
    }
    reference = model_reference(imported, full=verify == "full")
    plan = write_plan(assembly, imported, reference, options)
    notes = (*plan.notes, *budgets.notes, *costs.notes)
    return PartitionedModel(replace(plan, notes=notes), imported.graph, costs, imported)


def _require_options(hardware: object, threads: int, time_limit: float, verify: str) -> None:
    named = hardware is None or isinstance(hardware, (str, PathLike))
    wrong: list[tuple[bool, str, object, str]] = [
        (not named, "hardware", hardware, "it is the name of a profile or the path of a TOML file"),
        (verify not in ("sampled", "full"), "verify", verify, 'it is "sampled" or "full"'),
        (threads < 0, "threads", threads, "it is a number from 0, which leaves it to the machine"),
        (not time_limit >= 0, "time_limit", time_limit, "it is a number of seconds from 0"),
    ]
    for is_wrong, name, value, hint in wrong:
        if is_wrong:
            raise InvalidOptionError(f"{name} cannot be {value!r}", hint=hint)


def _silent(stage: str) -> None:
    del stage
