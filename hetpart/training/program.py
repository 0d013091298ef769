# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""A training step as an exported program: gradients, and one node that updates each parameter.

Parameters, what optimizers keep of them, and buffers that a step changes are arguments; their new contents are results.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

from hetpart.training.capture import SEED
from hetpart.training.operators import record_text, update_of

if TYPE_CHECKING:
    from torch.fx import Graph, Node

    from hetpart.training.capture import Gradients, Input
    from hetpart.training.optimizers import Assignment, Optimizer

PROGRESS = "progress"
"""The argument that says which update a step makes, as ``operators`` describes it."""


@dataclass(frozen=True, slots=True)
class StateName:
    """A tensor that a step keeps."""

    name: str
    """The model's name of the parameter or buffer, or ``optimizer/<state>/<parameter>``."""
    given: str
    """The program's argument."""


@dataclass(frozen=True, slots=True, eq=False)
class StepProgram:
    """A step, and what of its arguments and results is what."""

    program: ExportedProgram
    batch: Sequence[str]
    """Arguments that hold the batch, in order; ``""`` for what the step does not use."""
    states: Sequence[StateName]
    """In the order of the results, the first of which is the loss."""


def step_program(gradients: Gradients, assigned: Mapping[str, Assignment]) -> StepProgram:
    """The program of a step that updates every parameter by its optimizer.

    ``gradients`` is changed.
    """
    graph = gradients.graph.graph
    names = _Names(graph)
    states: list[tuple[StateName, Node]] = []
    progress = names.argument(PROGRESS, torch.empty(2, dtype=torch.float64), gradients.loss)
    for part in gradients.of(InputKind.PARAMETER):
        names.call(part.node, part.name)
        if part.name in gradients.gradients:
            optimizer: Any = assigned[part.name].optimizer
            states += _updated(names, part, gradients.gradients[part.name], optimizer, progress)
    for name, content in gradients.written.items():
        given = next(part for part in gradients.inputs if part.name == name and part.kind is InputKind.BUFFER)
        states.append((StateName(name, names.call(given.node, name)), content))
    for part in gradients.inputs:
        if part.kind is not InputKind.PARAMETER and part.name not in gradients.written:
            names.call(part.node, part.name)
    _return(graph, [gradients.loss, *(content for _, content in states)])
    kept = {part.node: part for part in gradients.inputs if _is_weight(part, gradients)}
    batch = [
        part.node.name if part.node.users else "" for part in gradients.of(InputKind.USER_INPUT) if part.name != SEED
    ]
    return StepProgram(_program(gradients, kept), batch, [state for state, _ in states])


def identifier(name: str) -> str:
    """``name`` as a name of Python's."""
    found = re.sub(r"\W", "_", name)
    return f"_{found}" if found[:1].isdigit() else found


def _is_weight(part: Input, gradients: Gradients) -> bool:
    """Whether its content is the same in every step."""
    if part.kind is InputKind.PARAMETER:
        return part.name not in gradients.gradients
    return part.kind is not InputKind.USER_INPUT and part.name not in gradients.written


class _Names:
    """The arguments of a graph, and what they are called."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._last = graph.find_nodes(op="placeholder")[-1]

    def call(self, node: Node, name: str) -> str:
        node.name = node.target = self._graph._graph_namespace.create_name(identifier(name), None)
        return node.name

    def argument(self, name: str, like: torch.Tensor, known: Node) -> Node:
        """A new argument of the form of ``like``."""
        with self._graph.inserting_after(self._last):
            self._last = self._graph.placeholder(identifier(name))
        with known.meta["val"].fake_mode:
            self._last.meta["val"] = torch.empty(list(like.shape), dtype=like.dtype)
        return self._last


def _updated(
    names: _Names, part: Input, gradient: Node, optimizer: Optimizer, progress: Node
) -> list[tuple[StateName, Node]]:
    """The node that updates a parameter, and what it makes."""
    given = [part.node]
    kept = [StateName(part.name, part.node.name)]
    for state in optimizer.state_names:
        node = names.argument(f"{state}_{part.name}", part.node.meta["val"], part.node)
        given.append(node)
        kept.append(StateName(f"optimizer/{state}/{part.name}", node.name))
    graph = gradient.graph
    arguments = (part.node, gradient, *given[1:], progress, None, record_text(optimizer))
    with graph.inserting_before(graph.output_node()):  # behind all that reads the old content
        update = graph.call_function(update_of(optimizer), arguments)
    contents = tuple(node.meta["val"] for node in given)
    update.meta |= _origin(part) | {"val": contents if len(given) > 1 else contents[0]}
    if len(given) == 1:
        return [(kept[0], update)]
    made = list[Any]()
    for place, content in enumerate(contents):
        with graph.inserting_before(graph.output_node()):
            made.append(graph.call_function(operator.getitem, (update, place)))
        made[-1].meta |= _origin(part) | {"val": content}
    return list(zip(kept, made, strict=True))


def _origin(part: Input) -> dict[str, Any]:
    """That a node belongs to the module of a parameter."""
    owner = part.name.rpartition(".")[0]
    return {"nn_module_stack": {"": ("", "step"), owner: (owner, "parameter")} if owner else {"": ("", "step")}}


def _return(graph: Graph, results: Sequence[Node]) -> None:
    """Let the graph return the results, each a node of its own."""
    output, known = graph.output_node(), set[Any]()
    returned = list[Any]()
    for node in results:
        if node in known or node.op == "placeholder":
            with graph.inserting_before(output):
                copy = graph.call_function(torch.ops.aten.clone.default, (node,))
            copy.meta = dict(node.meta)
            returned.append(copy)
        else:
            returned.append(node)
        known.add(node)
    output.args = (tuple(returned),)
    output.meta["val"] = tuple(node.meta["val"] for node in returned)
    graph.eliminate_dead_code()


def _program(gradients: Gradients, kept: Mapping[Any, Input]) -> ExportedProgram:
    graph = gradients.graph.graph
    for node in graph.find_nodes(op="placeholder"):
        if not node.users:
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
