"""The one place that composes the stages: model → graph → costs → placement → plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from hetpart.budgets import BudgetOption
from hetpart.config import PinOption, ShapeOption
from hetpart.constraints import ColocateOption, GainOption, HeadroomOption, NamesOption
from hetpart.cost_model.assumptions import AccessOption, TripOption
from hetpart.frontend.road import granted_in
from hetpart.kinds import require_kinds
from hetpart.partitioned import PartitionedModel
from hetpart.partitioner.assembly.write import write_plan
from hetpart.partitioner.colocate import known_states, note_of_states
from hetpart.partitioner.overlap import overlapped
from hetpart.partitioner.source import read_source
from hetpart.plan.references import model_reference
from hetpart.request import TIME_LIMIT, Request, RequestOptions, require

if TYPE_CHECKING:
    from hetpart.frontend.model import Model

Progress = Callable[[str], None]


def partition(  # noqa: PLR0913 - the options are what users type
    model: Model,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    weights: str | PathLike[str] | None = None,
    budget: BudgetOption = None,
    hardware: str | PathLike[str] | None = None,
    shape: ShapeOption = None,
    pin: PinOption = None,
    colocate: ColocateOption = None,
    host_budget: str | int | None = None,
    headroom: HeadroomOption = None,
    max_partitions: int | None = None,
    min_gain: GainOption = None,
    io: NamesOption = None,
    state: NamesOption = None,
    placement: str | PathLike[str] | Mapping[str, str] = "optimal",
    threads: int = 0,
    trip_count: TripOption = None,
    access: AccessOption = None,
    time_limit: float = TIME_LIMIT,
    overlap: bool = False,
    stream: bool | None = None,
    verify: str = "sampled",
    progress: Progress | None = None,
) -> PartitionedModel:
    """Decide which device runs every op of ``model``.

    Args:
        model: An ``.onnx`` file or a ``.pt2`` of ``torch.export``, or a model in memory: ONNX's, a ``torch.nn.Module``,
            a ``torch.export.ExportedProgram`` or a ``torch.fx.GraphModule``.
        args: Arguments of an example call of a PyTorch module, which is exported with them.
        kwargs: Keyword arguments of that call.
        dynamic_shapes: Which sizes may be others in a run, as ``torch.export.export`` takes them; names will do:
            ``{"ids": {0: "batch"}}``. ``shape`` binds them; those it leaves out are planned as in the example.
        weights: A folder of safetensors files, or one such file, that holds a PyTorch model's weights. They are run
            from there; the model itself may be without any, on the meta device.
        budget: Bytes of the accelerator that may be used, everything counted: ``"16GB"``, ``"80%"``, ``"auto"`` (the
            default: what is free less 5 %), ``"cuda:0=16GB"``, or several of these.
        hardware: ``"l4"``, ``"h100+epyc"``, a TOML file; by default this machine.
        shape: Numbers for symbolic dimensions: ``{"batch": 8}`` or ``"batch=8,seq=128"``.
        pin: Ops the user places: ``"encoder.layer.0.*=cpu"``, ``"op:Gather=cpu"``, ``"node:/fc/MatMul=cuda:0"``.
        colocate: Ops that share a device: ``"encoder.layer.0.*"``, or several such sets.
        host_budget: Bytes of the host's memory that may be used; ``budget="cpu=…"`` says the same.
        headroom: What stays free of every accelerator's budget: ``"1GB"`` or ``"10%"``.
        max_partitions: How many pieces the model is cut into at most.
        min_gain: What one more cut must save at least: ``"5%"`` of the latency or ``"1ms"``.
        io: Where graph inputs are given and graph outputs handed over: ``{"logits": "cuda:0"}`` or ``"logits=cuda:0"``.
        state: Inputs and the outputs that replace them, each pair kept on one device: ``{"past": "present"}``, or
            ``"auto"`` for those whose names and shapes tell.
        placement: ``"optimal"``, ``"random:SEED"``, ``"all-cpu"``, ``"all-accelerator"``, ``"fill-in-order"``,
            or a file, or what such a file holds: ``{"op name": "cpu"}``.
        threads: Threads of the host's lane; 0 leaves it to the machine.
        trip_count: How often loops run where no shape tells: ``{"decoder/loop*": 32}`` or ``"decoder/loop*=32"``.
        access: How likely a run touches a weight or an expert: ``{"experts.3.*": 0.25}``, or a JSON file of the kind.
        time_limit: Seconds after which the search returns the best it has.
        overlap: Cut and lay out for devices and copies that work at the same time: more partitions where an early copy
            pays, and more memory between them where the budget has it. No op moves.
        stream: Whether weights may be copied to the accelerator in every run instead of being held there; ``None``
            where a byte of its memory is worth more than copying one takes.
        verify: ``"full"`` records a digest of every byte of the weight files, ``"sampled"`` of some blocks.
        progress: Called with the name of every stage as it begins.

    Raises:
        InvalidModelError: The model cannot be read, or an op runs nowhere.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: An option cannot be understood.
        InfeasibleError: Nothing fits the budget.
    """
    say = progress or _silent
    require(verify in ("sampled", "full"), "verify", verify, 'it is "sampled" or "full"')
    options = RequestOptions(
        args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes, weights=weights,
        shape=shape, pin=pin, colocate=colocate, host_budget=host_budget, headroom=headroom, io=io, state=state,
        max_partitions=max_partitions, min_gain=min_gain, threads=threads, trip_count=trip_count, access=access,
        time_limit=time_limit, stream=stream,
    )  # fmt: skip
    require_kinds({"overlap": overlap, "placement": placement})
    request = Request.of(budget, options)
    machine = request.machine(hardware)
    budgets = request.resolved_budgets(machine)
    say("reading the model")
    exported = request.exported(model)
    imported = request.read(model if exported is None else exported.loaded)
    say("pricing its operators")
    priced = request.priced(imported.graph, machine)
    formulation = priced.formulated(budgets.nbytes)
    say("placing them")
    assembly = priced.placed(formulation, read_source(placement, imported.graph, formulation.problem))
    if overlap:
        say("cutting them for overlap")
        assembly = overlapped(assembly, request.constraints.limits)
    say("fingerprinting the weights")
    texts = request.texts() | _texts(hardware, placement, overlap=overlap)
    plan = write_plan(assembly, imported, model_reference(imported, full=verify == "full"), texts)
    granted = granted_in(exported, {spec.name: spec.shape for spec in plan.inputs}, imported.graph.dimensions)
    kept = request.constraints.states
    notes = (*plan.notes, *budgets.notes, *priced.costs.notes, *granted.notes, *note_of_states(kept, imported.graph))
    states = {state.given: state.returned for state in known_states(kept, imported.graph)}
    plan = replace(plan, notes=notes, states=states, granted=granted, examples=dict(imported.graph.examples))
    return PartitionedModel(plan, imported.graph, priced.costs, imported, exported)


def _texts(
    hardware: str | PathLike[str] | None, placement: str | PathLike[str] | Mapping[str, str], *, overlap: bool
) -> dict[str, str]:
    """Options that are not the request's, as the plan holds them."""
    asked = {"overlap": "true"} if overlap else {}
    source = "mapping" if isinstance(placement, Mapping) else str(placement)
    return {"hardware": str(hardware or "default"), "placement": source, **asked}


def _silent(stage: str) -> None:
    del stage
