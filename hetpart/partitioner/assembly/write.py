"""The Plan: every record of it, from an assembled placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.assemble import crossing_specs, residencies, transfers
from hetpart.partitioner.assembly.borders import partitions
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.assembly.explain import decisions
from hetpart.partitioner.assembly.specs import value_spec
from hetpart.partitioner.assembly.timeline import timeline
from hetpart.partitioner.problem import NO_OP, WHERE_USED
from hetpart.partitioner.search.solve import OPTIMAL
from hetpart.plan.figures import Baseline, Certificate, Prediction
from hetpart.plan.model import ModelReference, Plan, ValueSpec
from hetpart.plan.references import machine_reference

if TYPE_CHECKING:
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.search.solve import Solution


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
        certificate=certificate(solution),
        baselines=_baselines(assembly),
        footprint_bytes=footprint(assembly),
        notes=(*imported.notes, *_notes(assembly)),
        passthrough=dict(imported.passthrough),
        timeline=timeline(assembly),
        homes=_homes(assembly),
    )


def certificate(solution: Solution) -> Certificate:
    """How far from optimal ``solution`` can be."""
    return Certificate(solution.cost, solution.lower_bound, solution.gap, solution.price, solution.speaks_of)


def _inputs(assembly: Assembly) -> tuple[ValueSpec, ...]:
    graph = assembly.graph
    values = [graph.values[index] for index in graph.inputs]
    return tuple(value_spec(value, graph.index_ranges.get(value.name)) for value in values)


def _outputs(assembly: Assembly, imported: ImportedModel) -> tuple[ValueSpec, ...]:
    by_name = {value.name: value for value in assembly.graph.values}
    return tuple(value_spec(by_name[name]) for name in imported.returned)


def _homes(assembly: Assembly) -> dict[str, str]:
    """Graph inputs and outputs that the caller keeps on an accelerator, and states there."""
    formulation = assembly.formulation
    problem = formulation.problem
    homes = np.where(problem.kept == WHERE_USED, problem.home(assembly.solution.placement), problem.kept)
    callers = problem.value_returned | (problem.value_producer == NO_OP)
    kept = np.flatnonzero(callers & (homes > 0)).tolist()
    return {formulation.values[index].name: problem.devices[int(homes[index])] for index in kept}


def _prediction(assembly: Assembly) -> Prediction:
    problem, solution = assembly.formulation.problem, assembly.solution
    compute = float(problem.seconds[solution.placement, np.arange(problem.ops)].sum())
    copies = solution.cost - compute
    sessions = solution.total_seconds - solution.cost
    return Prediction(solution.total_seconds, compute, max(copies, 0.0), max(sessions, 0.0))


def _baselines(assembly: Assembly) -> tuple[Baseline, ...]:
    return tuple(
        Baseline(
            result.name, result.total_seconds if result.fits else None, result.peak_bytes, result.fits, result.beyond
        )
        for result in assembly.solution.baselines
    )


def footprint(assembly: Assembly) -> int:
    """Weights plus peak live bytes with everything on the accelerator that may be there."""
    for result in assembly.solution.baselines:
        if result.name == "all-accelerator":
            return result.peak_bytes
    return int(assembly.solution.usage.peak.sum())


def _notes(assembly: Assembly) -> list[str]:
    """Which rule won where it was not the solver's."""
    notes: list[str] = []
    if assembly.rule == OPTIMAL and assembly.solution.chosen in {result.name for result in assembly.solution.baselines}:
        notes.append(f"the rule {assembly.solution.chosen} gives the least modelled latency here, and was taken")
    return notes
