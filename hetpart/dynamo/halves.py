# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A graph in two: what computes, which is partitioned, and what only looks at its results in other ways.

Results of one graph may share memory: whoever changes ``y`` changes ``y[0]``. So views at the graph's end stay
PyTorch's, as sizes do, and what is partitioned returns tensors that share nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sympy import Integer
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from hetpart.frontend.calls import complex_of

_LARGE = 2**16
_SIZES = (int, torch.SymInt, torch.SymBool, torch.SymFloat, bool, float)


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """A graph in two."""

    head: GraphModule
    """From all arguments of the graph to tensors of their own."""
    made: Sequence[torch.Tensor]
    """What they were in the trace: their sizes, and how they lie in memory."""
    tail: GraphModule
    """From ``kept`` arguments of the graph and what the head returns to the graph's results."""
    kept: Sequence[int]
    """Places of the arguments that the tail takes."""


def halved(module: GraphModule) -> Halves:
    """``module``, whose graph changes nothing, in two."""
    graph = module.graph
    light = _light_end(graph)
    placeholders = graph.find_nodes(op="placeholder")
    wanted = dict.fromkeys(source for node in light for source in node.all_input_nodes if source not in light)
    bases = [node for node in wanted if node.op != "placeholder"]
    kept = [place for place, node in enumerate(placeholders) if node in wanted]
    given = [*(placeholders[place] for place in kept), *bases]
    return Halves(_head(module, bases), [base.meta["val"] for base in bases], _tail(module, given, light), kept)


def _light_end(graph: Graph) -> dict[Node, None]:
    """The nodes on the way to the output that no device need compute, the output among them."""
    found: dict[Node, None] = {}
    waiting = [graph.output_node()]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found[node] = None
        waiting += [source for source in node.all_input_nodes if _is_light(source)]
    return found


def _is_light(node: Node) -> bool:
    """Whether it is a view of a tensor, an entry of several views, or a size."""
    if node.op != "call_function":
        return False
    if isinstance(node.meta.get("val"), _SIZES):
        return True
    if node.target is operator.getitem:
        return isinstance(node.args[0], Node) and _is_light(node.args[0])
    return isinstance(node.target, OpOverload) and node.target.is_view


def _head(module: GraphModule, bases: Sequence[Node]) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[base] for base in bases))
    graph.eliminate_dead_code()
    return GraphModule(module, graph)


def _tail(module: GraphModule, given: Sequence[Node], light: dict[Node, None]) -> GraphModule:
    graph = Graph()
    copies = {node: graph.placeholder(f"given_{number}") for number, node in enumerate(given)}
    for node in module.graph.nodes:
        if node in light:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(module, graph)


def laid_out(tensor: torch.Tensor, traced: torch.Tensor) -> torch.Tensor:
    """``tensor``, which is contiguous, with its axes in memory in the order that the views of it count on.

    What is complex in the trace is pairs of real numbers in a plan.
    """
    if traced.is_complex():
        tensor = complex_of(tensor)
    strides = _numbers(_strides(traced))
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    if order == list(range(len(order))):
        return tensor
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(inverse)


def _strides(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.stride())


def _numbers(strides: Sequence[Any]) -> list[int]:
    """The numbers that ``strides`` have in the trace; ``int(stride)`` would bind the graph to it.

    Where data decide a size there is none: all sizes are one large number then, which leaves the axes in their order.
    """
    hints = [stride if isinstance(stride, int) else stride.node.hint for stride in strides]
    if None not in hints:
        return [int(hint) for hint in hints]
    return [stride if isinstance(stride, int) else _at_large(stride.node.expr) for stride in strides]


def _at_large(expression: Any) -> int:
    return int(expression.xreplace(dict.fromkeys(expression.free_symbols, Integer(_LARGE))))
