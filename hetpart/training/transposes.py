# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Matrices that autograd turns and turns back: the gradient of a weight is made as it lies, and the weight read so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import Graph, Node

_t, _mm = torch.ops.aten.t.default, torch.ops.aten.mm.default


def without_turns(graph: Graph) -> None:
    """Let no matrix of ``graph`` be turned twice, nor a product that nothing else reads be turned at all.

    The latter is the product of what it is made of, each turned, the other way round.
    """
    for node in graph.find_nodes(op="call_function", target=_t):
        made: Any = node.args[0]
        if made.target is _mm and len(made.users) == 1:
            node.replace_all_uses_with(_turned_round(graph, node, made))
    for node in graph.find_nodes(op="call_function", target=_t):
        made = node.args[0]
        if made.target is _t:
            node.replace_all_uses_with(made.args[0])
    graph.eliminate_dead_code()


def _turned_round(graph: Graph, node: Node, product: Any) -> Node:
    with graph.inserting_before(node):
        sides = [graph.call_function(_t, (side,)) for side in reversed(product.args)]
        made = graph.call_function(_mm, tuple(sides))
    for turned, side in zip(sides, reversed(product.args), strict=True):
        turned.meta = dict(product.meta) | {"val": side.meta["val"].t()}
    made.meta = dict(node.meta)
    return made
