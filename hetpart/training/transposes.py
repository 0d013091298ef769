# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Matrices that autograd turns and turns back: the gradient of a weight is made as it lies, and the weight read so.

A product with a bias is a ``Gemm``, which reads either matrix turned. ONNX Runtime lets it where one is turned for it
alone; a step has it so from the start, so that no plan keeps room for a turned weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hetpart.graph.walk import all_nodes

if TYPE_CHECKING:
    import onnx
    from torch.fx import Graph, Node

_SIDES, _INT = ("transA", "transB"), 2
"""What a ``Gemm`` says of its matrices, and the type of such an attribute, as ONNX numbers it."""
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


def read_turned(graph: onnx.GraphProto) -> None:
    """Let every ``Gemm`` of ``graph`` read what a ``Transpose`` makes for it as it was before."""
    makers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        for place, side in enumerate(_SIDES if node.op_type == "Gemm" and not node.domain else ()):
            turn = makers.get(node.input[place])
            if turn is not None and _turns(turn):
                node.input[place] = turn.input[0]
                _toggle(node, side)
    read = {name for node in all_nodes(graph.node) for name in node.input} | {value.name for value in graph.output}
    gone = [node for node in graph.node if _turns(node) and read.isdisjoint(node.output)]
    for node in gone:
        graph.node.remove(node)
    names = {name for node in gone for name in node.output}
    kept = [value for value in graph.value_info if value.name not in names]
    del graph.value_info[:]
    graph.value_info.extend(kept)


def _turns(node: onnx.NodeProto) -> bool:
    """Whether it turns a matrix, if what it is given is one."""
    orders = [list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"]
    return node.op_type == "Transpose" and not node.domain and orders in ([], [[1, 0]])


def _toggle(gemm: onnx.NodeProto, side: str) -> None:
    before = next((attribute for attribute in gemm.attribute if attribute.name == side), None)
    if before is None:
        gemm.attribute.add(name=side, type=_INT, i=1)
    else:
        before.i = 1 - before.i
