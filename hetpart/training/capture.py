# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportMissingTypeStubs=false
"""A model and its loss as one graph of what they compute, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from hetpart.frontend.capture import tied_names, told_apart, without_storage
from hetpart.frontend.dense import require_dense, require_dense_results
from hetpart.frontend.example import Example
from hetpart.training.criterion import Loss, LossFunction, require_no_parameters
from hetpart.training.followed import require_flat, require_no_hooks
from hetpart.training.left import Left, require_alike
from hetpart.training.traced import exported, traceable

if TYPE_CHECKING:
    from torch.export import ExportedProgram

OWN = "."
"""What the names begin with of what is none of the model's: nothing of a module is called so."""
PREFIX = "model."
"""Of the model's names in the module that computes its loss."""


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """What the graph is given."""

    name: str
    """The model's name of it; of what a batch holds, ``.batch`` and its place, and of what a step gives itself that."""
    kind: InputKind
    node: Node
    content: Any
    """A tensor, which may be fake."""


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """A loss, not yet differentiated."""

    program: ExportedProgram
    inputs: Sequence[Input]
    batch: Sequence[Any]
    assigned: Sequence[str] = ()
    """Buffers whose new contents the program returns behind the loss."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What a step may train, by name."""
        return {part.name: part.content for part in self.inputs if part.kind is InputKind.PARAMETER}


def exported_loss(model: torch.nn.Module, loss_fn: LossFunction, batch: Sequence[Any]) -> Exported:
    """``loss_fn(model, *batch)``. Nothing is computed: contents may be fake.

    Raises:
        InvalidModelError: it cannot be exported, or holds, is given or makes a sparse tensor.
        InvalidOptionError: a part of the batch holds others.
    """
    require_no_hooks(model)
    require_no_parameters(loss_fn, model)
    require_flat(batch)
    require_dense(model, Example(args=tuple(batch)), type(model).__name__)
    held, example = without_storage(Loss(model, loss_fn), told_apart(Example(args=tuple(batch))))
    with traceable(), Left(model).restored():
        program = exported(held, example, type(model).__name__)
        require_dense_results(program, type(model).__name__)
        whole: Any = held
        require_alike(whole.left, program, lambda: exported(held, example, type(model).__name__))
        inputs = _inputs(program, example.args, tied_names(held))
        return Exported(program, inputs, example.args, [*whole.assigned.contents])


def _inputs(program: ExportedProgram, batch: Sequence[Any], tied: Mapping[str, str]) -> list[Input]:
    held: dict[str, Any] = {**program.state_dict, **program.constants}
    given, found = iter(enumerate(batch)), list[Input]()
    nodes = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            place, content = next(given)
            found.append(Input(f"{OWN}batch.{place}", spec.kind, node, content))
            continue
        content = held[str(spec.target)]
        is_frozen = spec.kind is InputKind.PARAMETER and not content.requires_grad
        kind = InputKind.CONSTANT_TENSOR if is_frozen or str(spec.target) in tied else spec.kind
        name = tied.get(str(spec.target), str(spec.target)).removeprefix(PREFIX)
        found.append(Input(name, kind, node, content))
    return found
