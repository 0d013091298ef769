# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""From a model, its loss and an optimizer to a step that runs where it was placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind

from hetpart.compiler import partition
from hetpart.errors import InvalidModelError
from hetpart.frontend.capture import Captured
from hetpart.frontend.example import uncompiled
from hetpart.frontend.exported import exported_from
from hetpart.runtime.session import Session
from hetpart.training.capture import exported_loss
from hetpart.training.followed import require_real, require_trainable
from hetpart.training.gradients import gradients_of
from hetpart.training.kept import Contents, PlannedStep, Rest
from hetpart.training.logged import CallLog
from hetpart.training.named import name_ops
from hetpart.training.norms import COLLECTED
from hetpart.training.optimizers import Optimizer, RowOptimizer, assign
from hetpart.training.options import require_options
from hetpart.training.program import StepProgram, step_program
from hetpart.training.ranges import ranges_of
from hetpart.training.rules import NO_RULES, Rules
from hetpart.training.step import Step
from hetpart.training.tables import (
    StateFile,
    files_on_host,
    state_files,
    table_contents,
    tables_of,
)  # fmt: skip
from hetpart.training.transposes import read_turned

if TYPE_CHECKING:
    from hetpart.frontend.model import ExportedModel
    from hetpart.partitioned import PartitionedModel
    from hetpart.training.capture import Exported, LossFunction
    from hetpart.training.gradients import Gradients
    from hetpart.training.limits import Schedule
    from hetpart.training.optimizers import Assignment, Groups
    from hetpart.training.precision import LossScale
    from hetpart.training.ranges import Range


@dataclass(frozen=True, slots=True, eq=False)
class CapturedStep:
    """A step that is captured once, to be placed in one way or several."""

    exported: ExportedModel
    program: StepProgram
    contents: Contents
    """Before the first update."""
    rest: Rest
    files: Sequence[StateFile] = ()
    """What lies beside tables in files begins anew with each step that is made of this."""


@dataclass(frozen=True, slots=True)
class Running:
    """Options of ``hetpart.Session``."""

    emulate: bool = False
    emulate_link: str | float | None = None
    threads: int | None = None
    overlap: bool | None = None
    record: bool = False


ON_DEVICES = Running()


def compile(  # noqa: A001, PLR0913 - `hetpart.training.compile`, and the options are what users type
    model: torch.nn.Module,
    loss_fn: LossFunction,
    *,
    optimizer: Optimizer | Groups,
    example_batch: Sequence[Any],
    schedule: Schedule | None = None,
    precision: str | None = None,
    loss_scale: LossScale | float | None = None,
    accumulate: int = 1,
    clip_norm: float | None = None,
    seed: int = 0,
    emulate: bool = False,
    emulate_link: str | float | None = None,
    session_threads: int | None = None,
    overlap: bool | None = None,
    record: bool = False,
    **planning: Any,
) -> Step:
    """A training step of ``model``, placed and ready to be called with batches.

    Args:
        model: Its parameters and buffers are copied; ``step.sync_to(model)`` copies back what was learnt.
        loss_fn: ``loss_fn(model, *batch)`` returns one number. It is traced once.
        optimizer: One for all parameters, or ``Groups`` of them with rates, decays and devices of their own.
        example_batch: Every batch has its shapes and types.
        schedule: What multiplies the rates, by the number of the update, from 1.
        precision: ``"fp16"`` or ``"bf16"``: parameters are read and gradients made so; updates are in full precision.
        loss_scale: What multiplies the loss before its gradients are taken. By default fp16 has ``LossScale()``, which
            leaves out updates whose gradients are not finite, and changes.
        accumulate: Calls that make one update, of the mean of their gradients.
        clip_norm: The most that the norm of all gradients together may be.
        seed: With the number of the call it says what is drawn: what dropouts keep, noise.
        emulate: Run the accelerator's part on the host, behind memory of its own.
        emulate_link: As in ``hetpart.Session``.
        session_threads: ``threads`` of ``hetpart.Session``.
        overlap: Let updates run beside the backward pass: the plan is cut and laid out for it, and so is the session.
        record: Note what every call does and when, for ``step.session.write_trace``, and log a line of each partition,
            copy, update and lookup to the logger ``hetpart.run``; of the second call, of every kernel of the host's.
        planning: Options of ``hetpart.partition``: ``budget``, ``hardware``, ``pin``, ``placement`` and others.

    Raises:
        InvalidModelError: The loss cannot be traced, or changes something that a step does not keep.
        InvalidOptionError: An option cannot be understood.
        InfeasibleError: Nothing fits the budget.
    """
    require_options(planning, schedule, seed, own=compile)
    rules = Rules(precision, loss_scale, accumulate, clip_norm)
    captured = capture(model, loss_fn, optimizer=optimizer, example_batch=example_batch, rules=rules)
    running = Running(emulate, emulate_link, session_threads, overlap, record)
    return place(captured, schedule=schedule, seed=seed, running=running, **planning)


def capture(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    *,
    optimizer: Optimizer | Groups,
    example_batch: Sequence[Any],
    rules: Rules = NO_RULES,
) -> CapturedStep:
    """The step as ``compile`` captures it."""
    model = uncompiled(model)
    require_trainable(model, loss_fn)
    loss = exported_loss(model, loss_fn, example_batch)
    require_real(loss.parameters)
    assigned = assign(optimizer, loss.parameters)
    tables = tables_of(assigned)
    gradients = gradients_of(loss, tables, rules.half, scaled=rules.scaled)
    contents = _contents(gradients, assigned)
    if rules.accumulate > 1:
        contents |= {f"{COLLECTED}{name}": torch.zeros_like(contents[name]) for name in gradients.gradients}
    program = replace(step_program(gradients, assigned, rules), ranges=_ranges(loss, tables))
    exported = exported_from(Captured(program.program, type(model).__name__, model))
    targets = {name: found.target for name, found in assigned.items() if found.target != "auto"}
    files = files_on_host(loss.parameters, targets)
    read_turned(exported.loaded.proto.graph)
    name_ops(exported, program, targets | files, files)
    begun = state_files(contents, {name: found.optimizer for name, found in assigned.items()})
    return CapturedStep(exported, program, contents, Rest.of(model, contents), begun)


def place(
    captured: CapturedStep,
    *,
    schedule: Schedule | None = None,
    seed: int = 0,
    running: Running = ON_DEVICES,
    **planning: Any,
) -> Step:
    """A step that runs; ``planning`` are options of ``hetpart.partition``.

    Raises:
        InvalidModelError: The model has parameters without content.
        InvalidOptionError: A schedule is no function, the seed none, or an option of planning cannot be understood.
    """
    require_options(planning, schedule, seed)
    empty = [name for name, content in captured.contents.items() if isinstance(content, FakeTensor)]
    if empty:
        raise InvalidModelError(
            f"{empty[0]!r} has a form and no content, as {len(empty)} of the step's {len(captured.contents)} tensors",
            hint="hetpart.training.plan(…) places such a step; to run it, make the model with its parameters",
        )
    planned = planned_step(captured, **{"overlap": bool(running.overlap), **planning})
    log = CallLog() if running.record else None
    session = Session(
        planned.bundle(),
        None if log is None else log.options,
        emulate=running.emulate,
        emulate_link=running.emulate_link,
        threads=running.threads,
        overlap=running.overlap,
        record=running.record,
    )
    step = PlannedStep(planned, session, captured.program, captured.rest.copied(), log)
    begun = {file.name: file.begun() for file in captured.files}
    return Step(step, captured.contents | begun, schedule, seed)


def plan(  # noqa: PLR0913 - the options are what users type
    model: torch.nn.Module,
    loss_fn: LossFunction,
    *,
    optimizer: Optimizer | Groups,
    example_batch: Sequence[Any],
    schedule: Schedule | None = None,
    precision: str | None = None,
    loss_scale: LossScale | float | None = None,
    accumulate: int = 1,
    clip_norm: float | None = None,
    seed: int = 0,
    emulate: bool = False,
    emulate_link: str | float | None = None,
    session_threads: int | None = None,
    overlap: bool | None = None,
    record: bool = False,
    **planning: Any,
) -> PartitionedModel:
    """The placement of a training step, with its report; nothing runs.

    ``model`` may be on the meta device, or of fake tensors: a model larger than memory is planned before it exists.
    All else is as for ``compile``, so that one set of options serves both. ``schedule``, ``seed``, ``emulate``,
    ``emulate_link``, ``session_threads`` and ``record`` say how a step runs, and leave its plan as it is.
    """
    del emulate, emulate_link, session_threads, record
    require_options(planning, schedule, seed, own=compile)
    rules = Rules(precision, loss_scale, accumulate, clip_norm)
    captured = capture(model, loss_fn, optimizer=optimizer, example_batch=example_batch, rules=rules)
    return planned_step(captured, overlap=bool(overlap), **planning)


def planned_step(captured: CapturedStep, **planning: Any) -> PartitionedModel:
    """A step with its placement; ``planning`` are options of ``hetpart.partition``."""
    return partition(captured.exported, **planning)


def _ranges(loss: Exported, tables: AbstractSet[str]) -> list[Range]:
    batch = [part.node.name for part in loss.inputs if part.kind is InputKind.USER_INPUT]
    return ranges_of(loss.program, batch, {part.node.name for part in loss.inputs if part.name in tables})


def _contents(gradients: Gradients, assigned: Mapping[str, Assignment]) -> Contents:
    """What states hold before the first step, by the model's names; zeros in those that are left out."""
    found: dict[str, torch.Tensor] = {}
    for part in gradients.inputs:
        if part.name in gradients.written:
            found[part.name] = part.content
        if part.kind is InputKind.PARAMETER and part.name in gradients.updated:
            optimizer: Any = assigned[part.name].optimizer
            if isinstance(optimizer, RowOptimizer):
                found |= table_contents(part.name, part.content.detach(), optimizer)
                continue
            found[part.name] = part.content.detach()
            for name, state in optimizer.init(part.content.detach()).items():
                found[f"optimizer/{name}/{part.name}"] = state
    return found
