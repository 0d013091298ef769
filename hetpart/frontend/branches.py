# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Both branches of ``torch.cond`` computed, and the results of one taken: where ONNX has no operator for a branch.

Branches change nothing, so that what comes out is the same. It takes the time of both.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node, traceback
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from hetpart.frontend.said import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

_COND = torch.ops.higher_order.cond


def with_both_branches(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A copy of ``program`` without ``torch.cond``, where a tensor or a size says which branch is taken."""
    with quiet(), traceback.preserve_node_meta():
        made = program.run_decompositions({})
    module = made.graph_module
    for node in [node for node in module.graph.nodes if node.target is _COND]:
        _settle_by_size(module, node)
    while conditions := [node for node in module.graph.nodes if node.target is _COND and _is_told_by_tensor(node)]:
        for node in conditions:
            _choose(module, node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return made


def _is_told_by_tensor(node: Node) -> bool:
    told = node.args[0]
    return isinstance(told, Node) and isinstance(told.meta.get("val"), torch.Tensor)


def _settle_by_size(module: GraphModule, node: Node) -> None:
    """Take the branch that is taken at the example's sizes: asking which notes that it is taken for granted."""
    told, first, second, *rest = node.args
    taken = told.meta.get("val") if isinstance(told, Node) else told
    if isinstance(taken, torch.SymBool):
        taken = _known(taken)
    if isinstance(taken, bool):
        operands: Any = rest[0] if rest else ()
        with module.graph.inserting_before(node):
            results = _inlined(module, first if taken else second, operands)
        _replace(module, node, results)


def _known(told: torch.SymBool) -> bool | None:
    try:
        return bool(told)
    except GuardOnDataDependentSymNode:  # data decide the size
        return None


def _choose(module: GraphModule, node: Node) -> None:
    told, first, second, *rest = node.args
    operands: Any = rest[0] if rest else ()
    with module.graph.inserting_before(node):
        sides = [_inlined(module, branch, operands) for branch in (first, second)]
        chosen = [
            _where(module.graph, told, one, other, value)
            for one, other, value in zip(*sides, node.meta["val"], strict=True)
        ]
    _replace(module, node, chosen)


def _replace(module: GraphModule, node: Node, results: Sequence[Any]) -> None:
    for user in list(node.users):
        assert user.target is operator.getitem
        place: Any = user.args[1]
        user.replace_all_uses_with(results[place])
        module.graph.erase_node(user)
    module.graph.erase_node(node)


def _where(graph: Graph, told: Any, one: Any, other: Any, value: Any) -> Node:
    made = graph.call_function(torch.ops.aten.where.self, (told, one, other))
    made.meta = dict(one.meta) | {"val": value}
    return made


def _inlined(module: GraphModule, branch: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of ``branch`` of ``operands``, computed in the graph of ``module``."""
    body: GraphModule = getattr(module, branch.target)
    copies: dict[Node, Any] = dict(zip(body.graph.find_nodes(op="placeholder"), operands, strict=True))
    for node in body.graph.nodes:
        if node.op == "output":
            return torch.fx.node.map_arg(node.args[0], copies.__getitem__)
        if node.op != "placeholder":
            copies[node] = module.graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            copies[node].target = name = f"{branch.target}_{node.target}"
            setattr(module, name, getattr(body, node.target))
    raise AssertionError("a graph without an end")
