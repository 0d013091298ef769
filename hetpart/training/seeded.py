# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Whatever a step draws, its seed tells: it goes on from a checkpoint, and is the same in another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.training.drawn import DRAWN, arguments_of
from hetpart.training.dropout import DROPOUTS
from hetpart.training.writer import SEED

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_RULES = {**DROPOUTS, **DRAWN}


def seeded(traced: GraphModule) -> bool:
    """Let everything be drawn as the seed says, which becomes the last argument; whether anything is."""
    graph = traced.graph
    drawing = [node for node in graph.nodes if node.target in _RULES and _draws(node)]
    if not drawing:
        return False
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        seed = graph.placeholder(SEED)
    for salt, node in enumerate(drawing):
        _RULES[node.target](node, seed, salt)
    graph.eliminate_dead_code()
    traced.recompile()
    return True


def _draws(node: Node) -> bool:
    """Whether it does: a dropout and an RReLU may be told that nothing is trained."""
    told = arguments_of(node)
    return told.get("train", told.get("training")) is not False
