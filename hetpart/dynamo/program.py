# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""A graph of Dynamo's as an exported program: what the one road of every PyTorch model begins with.

It keeps the sizes' symbols of the trace, so that whatever the road finds out about them becomes one of Dynamo's guards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import torch
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from hetpart.dynamo.names import Names

_PLAIN = torch.nn.Module()
_WHOLE = "graph"
"""The class of the module that the rest lies in: what Dynamo hands over has none."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphProgram:
    """A program, and which arguments of the graph its inputs are."""

    program: torch.export.ExportedProgram
    fed: Sequence[int]
    """Places of the arguments, in the order of the program's inputs."""
    weights: Sequence[int]
    """Places of those that are its weights."""
    names: Sequence[str]
    """Of its weights."""
    constants: Mapping[str, torch.Tensor]
    """By name: what the code itself holds."""
    modules: Mapping[str, int]
    """By path, the identity of the module that Dynamo found there."""


def program_of(head: GraphModule, names: Sequence[str], weights: AbstractSet[int], users: Names) -> GraphProgram:
    """The graph ``head``, whose results are tensors, as a program.

    Args:
        head: It is changed.
        names: What its arguments are called, each differently.
        weights: Places of the arguments that are its weights.
        users: What the user calls the modules in it.
    """
    graph, constants = head.graph, _lifted(head)
    _read_sizes_of_tensors(graph)
    modules = _modules(graph, users)
    for node in graph.nodes:
        _settle_origin(node, users)
    arguments = list(enumerate(_arguments(graph, constants)))
    used = [(place, node) for place, node in arguments if node.users]
    for _, node in arguments:
        if not node.users:
            graph.erase_node(node)
    registered = _registered(names)
    held = {node: registered[place] for place, node in used if place in weights}
    for place, node in used:
        _rename(graph, node, f"w_{place}" if place in weights else _identifier(names[place]))
    signature = ExportGraphSignature(
        [_input_spec(node, held, constants) for node in graph.find_nodes(op="placeholder")],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name), None) for name in _returned(graph)],
    )
    fed = [place for place, node in used if node not in held]
    calls = _calls([node.name for _, node in used if node not in held], len(signature.output_specs))
    state = {name: node.meta["val"] for node, name in held.items()}
    program = torch.export.ExportedProgram(head, graph, signature, state, {}, calls, constants=dict(constants))
    weighted = [place for place, node in used if node in held]
    return GraphProgram(program, fed, weighted, list(held.values()), dict(constants), modules)


def _registered(names: Sequence[str]) -> list[str]:
    """Names under which a module can hold what is called ``names``: tables may have keys as ``cpu``, its own method."""
    given, made = set(names), dict[str, None]()
    for name in names:
        parts = (f"{part}_" if not part or hasattr(_PLAIN, part) else part for part in name.split("."))
        found = ".".join(parts)
        while found in made or (found != name and found in given):
            found += "_"
        made[found] = None
    return list(made)


def _returned(graph: Graph) -> list[str]:
    made: Any = graph.output_node().args[0]
    return [node.name for node in made]


def _arguments(graph: Graph, constants: Mapping[str, torch.Tensor]) -> list[Node]:
    return [node for node in graph.find_nodes(op="placeholder") if node.name not in constants]


def _lifted(head: GraphModule) -> dict[str, torch.Tensor]:
    """Let the constants that ``head`` holds be arguments of its graph, behind all others; what they are, by name."""
    graph, found = head.graph, dict[str, torch.Tensor]()
    *_, last = [None, *graph.find_nodes(op="placeholder")]
    for node in graph.find_nodes(op="get_attr"):
        held = getattr(head, str(node.target), None)
        if not isinstance(held, torch.Tensor):
            continue
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            last = graph.placeholder(f"constant_{len(found)}")
        last.meta["val"] = node.meta["val"]
        found[last.name] = held
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return found


def _read_sizes_of_tensors(graph: Graph) -> None:
    """Read every size that is an argument off a tensor that has it: bound there, it is bound everywhere."""
    tensors = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta["val"], torch.Tensor)]
    lying: dict[Any, tuple[Node, int]] = {}
    for node in tensors:
        for axis, size in enumerate(_sizes(node.meta["val"])):
            if isinstance(size, torch.SymInt):
                lying.setdefault(size.node.expr, (node, axis))
    for node in graph.find_nodes(op="placeholder"):
        size = node.meta["val"]
        if isinstance(size, torch.SymInt) and node.users and size.node.expr in lying:
            with graph.inserting_after(tensors[-1]):
                read = graph.call_function(torch.ops.aten.sym_size.int, lying[size.node.expr])
            read.meta["val"] = size
            node.replace_all_uses_with(read)


def _sizes(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape)


def _modules(graph: Graph, users: Names) -> dict[str, int]:
    """Dynamo's notes have the identity of a module, and behind an ``@`` which call of it this is."""
    stacks = [node.meta.get("nn_module_stack") or {} for node in graph.nodes]
    notes = {(str(key), path) for stack in stacks for key, (path, _) in stack.items()}
    found = {(users.of_module(key, path), key.partition("@")[0]) for key, path in notes}
    return {path: int(key) for path, key in sorted(found) if key.isdigit()}


def _settle_origin(node: Node, users: Names) -> None:
    """Say of ``node`` which module it is from as ``torch.export`` says it, in the user's names."""
    if node.op in ("placeholder", "output"):
        node.meta.pop("nn_module_stack", None)
        node.meta.pop("stack_trace", None)
        return
    stack = node.meta.get("nn_module_stack") or {}
    named = {str(key): (users.of_module(str(key), path), _class_name(kind)) for key, (path, kind) in stack.items()}
    node.meta["nn_module_stack"] = {"": ("", _WHOLE), **named}


def _class_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


def _input_spec(node: Node, held: Mapping[Node, str], constants: Mapping[str, torch.Tensor]) -> InputSpec:
    if node in held:
        return InputSpec(InputKind.BUFFER, TensorArgument(node.name), held[node], persistent=True)
    if node.name in constants:
        return InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
    kind = SymIntArgument if isinstance(node.meta["val"], torch.SymInt) else TensorArgument
    return InputSpec(InputKind.USER_INPUT, kind(node.name), None)


def _calls(inputs: Sequence[str], outputs: int) -> list[ModuleCallEntry]:
    """That the program is called with tensors by position, and returns a tuple."""
    given = pytree.tree_structure((tuple(inputs), {}))
    returned = pytree.tree_structure(tuple(range(outputs)))
    return [ModuleCallEntry("", ModuleCallSignature([], [], given, returned, forward_arg_names=list(inputs)))]


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name) or "value"
    return f"_{found}" if found[0].isdigit() or iskeyword(found) else found


def _rename(graph: Graph, node: Node, name: str) -> None:
    node.name = node.target = graph._graph_namespace.create_name(name, node)
