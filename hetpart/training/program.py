# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""A training step as an exported program: gradients, and one node that updates each parameter.

Parameters, what optimizers keep of them, and buffers that a step changes are arguments; their new contents are results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from hetpart.training.capture import OWN
from hetpart.training.examples import examples_of
from hetpart.training.norms import collected, norm_of, scale_of, square_norm
from hetpart.training.ranges import Range
from hetpart.training.rules import NO_RULES, Rules
from hetpart.training.tables import Tables, progress_with_rows
from hetpart.training.updates import Common, StateName, updated
from hetpart.training.writer import LOSS_SCALE, PROGRESS, SEED, Writer

if TYPE_CHECKING:
    from torch.fx import Node

    from hetpart.training.capture import Input
    from hetpart.training.gradients import Gradients
    from hetpart.training.optimizers import Assignment

PROGRESS_SHAPE = (4,)
_OWN_ARGUMENTS = (f"{OWN}{SEED}", f"{OWN}{LOSS_SCALE}")


@dataclass(frozen=True, slots=True, eq=False)
class StepProgram:
    """A step, and what of its arguments and results is what."""

    program: ExportedProgram
    batch: Sequence[str]
    """Arguments that hold the batch, in order; ``""`` for what the step does not use."""
    states: Sequence[StateName]
    """In the order of the results, before which come the loss and, where updates need it, the norm of all gradients."""
    rules: Rules = NO_RULES
    together: Sequence[Sequence[str]] = ()
    """Names of ops that share a device."""
    constants: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """What of the batch is no tensor, by its place: the step computes with these values and no others."""
    examples: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    """What arguments that are none of the batch may be given, as ``examples`` describes it."""
    ranges: Sequence[Range] = ()
    """Values that parts of the batch may have."""

    @property
    def numbers(self) -> int:
        """Results that are none of its states."""
        return 2 if self.rules.needs_norm else 1


def step_program(gradients: Gradients, assigned: Mapping[str, Assignment], rules: Rules = NO_RULES) -> StepProgram:
    """The program of a step that updates every parameter by its optimizer.

    ``gradients`` is changed.
    """
    writer = Writer(gradients.graph.graph, gradients.loss)
    states: list[tuple[StateName, Node]] = []
    own = _name_own(writer, gradients)
    progress = _progress(writer, gradients)
    tables, slopes = Tables(writer, gradients, rules.accumulate, progress), dict(gradients.gradients)
    states += tables.states
    if rules.accumulate > 1:
        parameters = {part.name: part for part in gradients.of(InputKind.PARAMETER)}
        sums = {name: collected(writer, parameters[name], slope, progress) for name, slope in slopes.items()}
        states += sums.values()
        slopes = {name: content for name, (_, content) in sums.items()}
    norms = [_norm(writer, tables, gradients, slopes)] if rules.needs_norm else []
    common = Common(progress, *(scale_of(writer, norm, progress, rules) for norm in norms))
    for part in gradients.of(InputKind.PARAMETER):
        writer.rename(part.node, part.name)
        optimizer: Any = assigned[part.name].optimizer
        if part.name in slopes:
            states += updated(writer, part, slopes[part.name], optimizer, common)
        elif part.name in gradients.updated:
            states += tables.updated(part, optimizer, common)
    for name, content in gradients.written.items():
        given = next(part for part in gradients.inputs if part.name == name and part.kind is InputKind.BUFFER)
        states.append((StateName(name, writer.rename(given.node, name)), content))
    _name_rest(writer, gradients, own)
    writer.result([gradients.loss, *norms, *(content for _, content in states)])
    kept = {part.node: part for part in gradients.inputs if _is_weight(part, gradients)}
    given = [part for part in gradients.of(InputKind.USER_INPUT) if part not in own]
    batch = [part.node.name if part.node.users else "" for part in given]
    constants = {place: part.content for place, part in enumerate(given) if not isinstance(part.content, torch.Tensor)}
    names = [state for state, _ in states]
    return StepProgram(
        _program(gradients, kept, names), batch, names, rules, tables.together(), constants,
        examples_of(names, assigned, rules),
    )  # fmt: skip


def _name_own(writer: Writer, gradients: Gradients) -> Sequence[Input]:
    """The arguments that the step gives itself, called so."""
    own = [part for part in gradients.of(InputKind.USER_INPUT) if part.name in _OWN_ARGUMENTS]
    for part in own:
        writer.own(part.node, part.name.removeprefix(OWN))
    return own


def _name_rest(writer: Writer, gradients: Gradients, own: Sequence[Input]) -> None:
    """Name what is neither updated nor written nor the step's ``own``."""
    for part in gradients.inputs:
        is_written = part.kind is InputKind.BUFFER and part.name in gradients.written
        if part.kind is not InputKind.PARAMETER and not is_written and part not in own:
            writer.rename(part.node, part.name)


def _progress(writer: Writer, gradients: Gradients) -> Node:
    """What updates are told; where there are tables, once the ids of the batch are seen to."""
    progress = writer.own(writer.argument(PROGRESS, PROGRESS_SHAPE, torch.float64), PROGRESS)
    tables = {lookup.table for lookup in gradients.lookups}
    rows = {part.name: len(part.content) for part in gradients.of(InputKind.PARAMETER) if part.name in tables}
    return progress_with_rows(writer, gradients.lookups, rows, progress) if rows else progress


def _norm(writer: Writer, tables: Tables, gradients: Gradients, slopes: Mapping[str, Node]) -> Node:
    rows = dict.fromkeys(lookup.table for lookup in gradients.lookups)
    squares = [square_norm(writer, name, slope) for name, slope in slopes.items()]
    return norm_of(writer, [*squares, *(tables.square_norm(name) for name in rows)])


def _is_weight(part: Input, gradients: Gradients) -> bool:
    """Whether its content is the same in every step."""
    if part.kind is InputKind.PARAMETER:
        return part.name not in gradients.updated
    return part.kind is not InputKind.USER_INPUT and part.name not in gradients.written


def _program(gradients: Gradients, kept: Mapping[Any, Input], states: Sequence[StateName]) -> ExportedProgram:
    graph, written = gradients.graph.graph, {state.given for state in states}
    for node in graph.find_nodes(op="placeholder"):
        if not node.users and node.name not in written:  # a state may have a new content and nothing that reads it
            graph.erase_node(node)
    arguments = graph.find_nodes(op="placeholder")
    specs = [
        InputSpec(InputKind.BUFFER, TensorArgument(node.name), kept[node].name, persistent=True)
        if node in kept
        else InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
        for node in arguments
    ]
    returned: Any = graph.output_node().args[0]
    signature = ExportGraphSignature(
        specs, [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in returned]
    )
    held = {kept[node].name: kept[node].content.detach() for node in arguments if node in kept}
    given = [node.name for node in arguments if node not in kept]
    gradients.graph.recompile()
    calls = ModuleCallSignature(
        [],
        [],
        pytree.tree_structure((tuple(given), {})),
        pytree.tree_structure(tuple(range(len(returned)))),
        forward_arg_names=given,
    )
    return ExportedProgram(gradients.graph, graph, signature, held, {}, [ModuleCallEntry("", calls)])
