# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Dropouts of a step: what they keep is told by a seed, whichever device they run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hetpart.training.operators import keep_operator

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

SEED = "seed"
"""The argument of a graph that draws numbers: the user's seed, and the number of the call."""


def seeded(traced: GraphModule) -> bool:
    """Let every dropout keep what the seed says, which becomes the last argument; whether there is one."""
    graph = traced.graph
    dropouts = graph.find_nodes(op="call_function", target=torch.ops.aten.native_dropout.default)
    if not dropouts:
        return False
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        seed = graph.placeholder(SEED)
    for salt, node in enumerate(dropouts):
        _keep(node, seed, salt)
    graph.eliminate_dead_code()
    traced.recompile()
    return True


def _keep(dropout: Node, seed: Node, salt: int) -> None:
    graph, aten = dropout.graph, torch.ops.aten
    x: Any = dropout.args[0]
    p: Any = dropout.args[1]
    known = x.meta["val"]
    with graph.inserting_before(dropout):
        mask = graph.call_function(keep_operator(), (seed, list(known.shape), p, salt))
        kept = graph.call_function(aten._to_copy.default, (mask,), {"dtype": known.dtype})
        scaled = graph.call_function(aten.mul.Tensor, (kept, 1.0 / (1.0 - p) if p < 1 else 0.0))
        made = graph.call_function(aten.mul.Tensor, (x, scaled))
    for node in (mask, kept, scaled, made):
        node.meta |= {key: dropout.meta[key] for key in ("nn_module_stack", "stack_trace") if key in dropout.meta}
    for result in list(dropout.users):
        result.replace_all_uses_with(mask if result.args[1] else made)
