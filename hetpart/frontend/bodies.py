# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Operators of higher order in a program that stay PyTorch's whole, with all that is in their graphs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node

from hetpart.errors import InvalidModelError
from hetpart.frontend.capture import quiet
from hetpart.frontend.higher import CALLED, PYTHON, RUN

NEVER_TRANSLATED = frozenset({"map_impl", "flex_attention"})
"""What the exporter has no translation of, whatever is in it."""
_NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format", torch.device: "device"}
_LARGEST = 1024
"""Elements of a constant that is written out."""
Known = Callable[[Node], Any]
"""How a value of the graph is written that the call is in."""


def written_body(node: Node, owner: GraphModule) -> tuple[str, list[Node]]:
    """The call of an operator of higher order that ``node`` of ``owner`` makes, and its tensors.

    Raises:
        TypeError: something in it has no text.
    """
    tensors: dict[Node, int] = {}

    def known(one: Node) -> Any:
        if not isinstance(one.meta.get("val"), torch.Tensor):
            raise TypeError(f"the size {one.name} among its arguments")
        return {"tensor": tensors.setdefault(one, len(tensors))}

    values = node.meta["val"]
    if not isinstance(values, list | tuple) or not all(isinstance(value, torch.Tensor) for value in values):
        raise TypeError("results that are no tensors")
    return json.dumps(_call(node, owner, known) | {"results": len(values)}), list(tensors)


def _call(node: Node, owner: GraphModule, known: Known) -> dict[str, Any]:
    args = [_written(argument, owner, known) for argument in node.args]
    kwargs = {name: _written(argument, owner, known) for name, argument in node.kwargs.items()}
    return {"op": _name(node.target), "args": args, "kwargs": kwargs}


def _name(target: Any) -> str:
    if isinstance(target, OpOverload):
        return target.name()
    if isinstance(target, HigherOrderOperator) and target.name() in RUN:
        return target.name()
    name = getattr(target, "__name__", "")
    if PYTHON.get(name) is not target:
        raise TypeError(f"a call of {target}")
    return name


def _written(argument: Any, owner: GraphModule, known: Known) -> Any:
    if isinstance(argument, Node):
        return _reference(argument, owner, known)
    if isinstance(argument, list | tuple):
        return [_written(part, owner, known) for part in argument]
    if isinstance(argument, Mapping):
        return {"dict": {str(name): _written(part, owner, known) for name, part in argument.items()}}
    if argument is None or isinstance(argument, bool | int | float | str):
        return argument
    for kind, name in _NAMED.items():
        if isinstance(argument, kind):
            return {name: str(argument).removeprefix("torch.")}
    raise TypeError(f"an argument of type {type(argument).__name__}")


def _reference(node: Node, owner: GraphModule, known: Known) -> Any:
    held = getattr(owner, str(node.target), None) if node.op == "get_attr" else None
    if isinstance(held, GraphModule):
        return {"graph": _graph(held)}
    return known(node) if held is None else _constant(held)


def _constant(held: Any) -> Any:
    if not isinstance(held, torch.Tensor) or held.is_complex() or held.numel() > _LARGEST:
        raise TypeError("a large constant")
    return {"constant": [str(held.dtype).removeprefix("torch."), held.tolist()]}


def _graph(module: GraphModule) -> dict[str, Any]:
    inputs = module.graph.find_nodes(op="placeholder")
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    numbers = {node: number for number, node in enumerate((*inputs, *calls))}

    def known(one: Node) -> Any:
        return {"value": numbers[one]}

    result = _written(module.graph.output_node().args[0], module, known)
    return {"calls": [_call(node, module, known) for node in calls], "result": result}


def run_by_pytorch(
    program: torch.export.ExportedProgram, names: AbstractSet[str], name: str
) -> torch.export.ExportedProgram:
    """``program`` with its operators of higher order ``names`` run by PyTorch; a copy, where it has some.

    Raises:
        InvalidModelError: one cannot be.
    """
    if not any(True for _ in _higher(program.graph, names)):
        return program
    made: GraphModule = copy.deepcopy(program.graph_module)
    for node in list(_higher(made.graph, names)):
        try:
            text, tensors = written_body(node, made)
        except TypeError as refused:
            raise InvalidModelError(
                f"{name} uses {node.target}, which stays PyTorch's, with {refused}",
                hint="write that part in other operators, or leave it out of what is partitioned",
            ) from refused
        node.target, node.args, node.kwargs = CALLED, (text, tensors), {}
        node.meta["val"] = list(node.meta["val"])
    for node in made.graph.find_nodes(op="get_attr"):
        if not node.users:  # other nodes without users are there for what they do, as those around a vmap
            made.graph.erase_node(node)
    made.delete_all_unused_submodules()
    made.recompile()
    with quiet():
        return program._update(made, program.graph_signature)


def _higher(graph: Graph, names: AbstractSet[str]) -> Iterator[Node]:
    called = (node for node in graph.nodes if isinstance(node.target, HigherOrderOperator))
    return (node for node in called if node.target.name() in names)
