"""The Plan: every record of it, from an assembled placement."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.assemble import crossing_specs, residencies, transfers
from hetpart.partitioner.assembly.borders import partitions
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.assembly.explain import decisions
from hetpart.partitioner.assembly.specs import value_spec
from hetpart.partitioner.assembly.timeline import timeline
from hetpart.partitioner.search.solve import OPTIMAL
from hetpart.plan.fingerprint import describe_file
from hetpart.plan.model import (
    Baseline,
    Certificate,
    MachineReference,
    ModelReference,
    Plan,
    Prediction,
    ValueSpec,
)
from hetpart.plan.weights import weight_files

if TYPE_CHECKING:
    from hetpart.devices import Machine
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.partitioner.assembly.assemble import Assembly

_UNKNOWN_SHOWN = 5


def write_plan(assembly: Assembly, imported: ImportedModel, reference: ModelReference, options: dict[str, str]) -> Plan:
    """Everything known of the placement, as the contract between deciding and doing."""
    solution = assembly.solution
    return Plan(
        model=reference,
        machine=machine_reference(assembly.costs.machine),
        options=options,
        devices=device_uses(assembly),
        inputs=_inputs(assembly),
        outputs=_outputs(assembly, imported),
        values=crossing_specs(assembly),
        partitions=partitions(assembly),
        transfers=transfers(assembly),
        buffers=tuple(buffer for arena in assembly.arenas for buffer in arena.buffers),
        residencies=residencies(assembly),
        decisions=decisions(assembly),
        prediction=_prediction(assembly),
        certificate=Certificate(solution.cost, solution.lower_bound, solution.gap, solution.price, solution.speaks_of),
        baselines=_baselines(assembly),
        footprint_bytes=footprint(assembly),
        notes=(*imported.notes, *_notes(assembly)),
        passthrough=dict(imported.passthrough),
        timeline=timeline(assembly),
    )


def model_reference(imported: ImportedModel, *, full: bool = False) -> ModelReference:
    """The model as it is now, its weight files fingerprinted; all their bytes read where ``full``."""
    folder, path = imported.folder, imported.path
    files = () if folder is None else weight_files([imported.proto], folder, full=full)
    return ModelReference(
        name=imported.name,
        path=str(path.absolute()) if path else "",
        folder=str(folder.absolute()) if folder and files else "",
        files=files,
        opset=imported.graph.opset,
        ops=len(imported.graph.ops),
        weight_bytes=sum(weight.nbytes for weight in imported.graph.weights),
        dimensions=dict(imported.graph.dimensions),
        sources=() if path is None else (describe_file(path.parent, path.name, full=full), *files),
    )


def machine_reference(machine: Machine) -> MachineReference:
    """The machine's name and a digest of its figures."""
    figures = {"devices": [asdict(d) for d in machine.devices], "links": [asdict(link) for link in machine.links]}
    digest = hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()
    return MachineReference(machine.name, machine.origin, digest)


def _inputs(assembly: Assembly) -> tuple[ValueSpec, ...]:
    graph = assembly.graph
    values = [graph.values[index] for index in graph.inputs]
    return tuple(value_spec(value, graph.index_ranges.get(value.name)) for value in values)


def _outputs(assembly: Assembly, imported: ImportedModel) -> tuple[ValueSpec, ...]:
    by_name = {value.name: value for value in assembly.graph.values}
    return tuple(value_spec(by_name[name]) for name in imported.returned)


def _prediction(assembly: Assembly) -> Prediction:
    problem, solution = assembly.formulation.problem, assembly.solution
    compute = float(problem.seconds[solution.placement, np.arange(problem.ops)].sum())
    copies = solution.cost - compute
    sessions = solution.total_seconds - solution.cost
    return Prediction(solution.total_seconds, compute, max(copies, 0.0), max(sessions, 0.0))


def _baselines(assembly: Assembly) -> tuple[Baseline, ...]:
    return tuple(
        Baseline(result.name, result.total_seconds if result.fits else None, result.peak_bytes, result.fits)
        for result in assembly.solution.baselines
    )


def footprint(assembly: Assembly) -> int:
    """Weights plus peak live bytes with everything on the accelerator that may be there."""
    for result in assembly.solution.baselines:
        if result.name == "all-accelerator":
            return result.peak_bytes
    return int(assembly.solution.usage.peak.sum())


def _notes(assembly: Assembly) -> list[str]:
    """What the figures rest on that is not a formula, and which rule won where it was not the solver's."""
    notes: list[str] = []
    unknown = sorted({assembly.graph.ops[cost.op].op_type for cost in assembly.costs.ops if not cost.known})
    if unknown:
        listed = ", ".join(unknown[:_UNKNOWN_SHOWN]) + (", …" if len(unknown) > _UNKNOWN_SHOWN else "")
        notes.append(f"no cost formula for {listed}: priced conservatively")
    estimated = sum(not value.is_static and value.kind == "tensor" for value in assembly.formulation.values)
    if estimated:
        notes.append(f"the size of {estimated} value{'s' if estimated > 1 else ''} is known only in a run: estimated")
    if assembly.rule == OPTIMAL and assembly.solution.chosen in {result.name for result in assembly.solution.baselines}:
        notes.append(f"the rule {assembly.solution.chosen} gives the least modelled latency here, and was taken")
    return notes
