# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What a program writes to in place, by itself or through a part of it."""

from __future__ import annotations

from operator import getitem
from typing import TYPE_CHECKING

from torch._ops import OpOverload
from torch.fx import GraphModule, Node

if TYPE_CHECKING:
    from collections.abc import Collection


def written(module: GraphModule, moves: Collection[str]) -> frozenset[Node]:
    """Nodes whose results are written to later; ``moves`` are operators that give parts of what they are given."""
    found: set[Node] = set()
    waiting = [node for user in module.graph.nodes for node in _written_by(module, user, moves)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            parts = isinstance(node.target, OpOverload) and operator_name(node.target) in moves
            waiting += node.all_input_nodes if parts or node.target is getitem else []
    return frozenset(found)


def _written_by(module: GraphModule, node: Node, moves: Collection[str]) -> list[Node]:
    """What ``node`` writes to, itself or within the region that it runs."""
    if isinstance(node.target, OpOverload):
        places = zip(node.target._schema.arguments, node.args, strict=False)
        return [
            given
            for argument, given in places
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(given, Node)
        ]
    given = [*node.args]
    named = next((one for one in given if isinstance(one, Node) and one.op == "get_attr"), None)
    region = None if named is None else getattr(module, str(named.target), None)
    if not isinstance(region, GraphModule):
        return []
    to = written(region, moves)
    parts = zip(region.graph.find_nodes(op="placeholder"), given[given.index(named) + 1 :], strict=False)
    return [one for part, one in parts if part in to and isinstance(one, Node)]


def operator_name(target: OpOverload) -> str:
    """Without its namespace and its overload."""
    return target.name().partition("::")[2].partition(".")[0]
