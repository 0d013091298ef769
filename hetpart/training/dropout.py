# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Dropouts of a step: what they keep is told by a seed, whichever device they run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hetpart.training.operators import keep_operator
from hetpart.training.writer import SEED

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_aten = torch.ops.aten
_DROPOUT = _aten.native_dropout.default
_TOSSED = (_aten.bernoulli_.float, _aten.bernoulli.p)
"""What dropouts in place, of channels and for SELU are made of: ones with a probability that is a number."""


def seeded(traced: GraphModule) -> bool:
    """Let every dropout keep what the seed says, which becomes the last argument; whether there is one."""
    graph = traced.graph
    drawing = [node for node in graph.nodes if node.target in (_DROPOUT, *_TOSSED)]
    if not drawing:
        return False
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        seed = graph.placeholder(SEED)
    for salt, node in enumerate(drawing):
        keep = _keep if node.target is _DROPOUT else _toss
        keep(node, seed, salt)
    graph.eliminate_dead_code()
    traced.recompile()
    return True


def _keep(dropout: Node, seed: Node, salt: int) -> None:
    graph = dropout.graph
    x: Any = dropout.args[0]
    p: Any = dropout.args[1]
    known = x.meta["val"]
    with graph.inserting_before(dropout):
        mask = graph.call_function(keep_operator(), (seed, list(known.shape), p, salt))
        kept = graph.call_function(_aten._to_copy.default, (mask,), {"dtype": known.dtype})
        scaled = graph.call_function(_aten.mul.Tensor, (kept, 1.0 / (1.0 - p) if p < 1 else 0.0))
        made = graph.call_function(_aten.mul.Tensor, (x, scaled))
    for node in (mask, kept, scaled, made):
        node.meta |= {key: dropout.meta[key] for key in ("nn_module_stack", "stack_trace") if key in dropout.meta}
    for result in list(dropout.users):
        result.replace_all_uses_with(mask if result.args[1] else made)


def _toss(node: Node, seed: Node, salt: int) -> None:
    """Let ``node`` have ones where a dropout with the rest of its probability keeps."""
    graph = node.graph
    x: Any = node.args[0]
    kept: Any = (*node.args[1:], node.kwargs.get("p", 0.5))[0]
    known = x.meta["val"]
    with graph.inserting_before(node):
        mask = graph.call_function(keep_operator(), (seed, list(known.shape), 1.0 - kept, salt))
        made = graph.call_function(_aten._to_copy.default, (mask,), {"dtype": known.dtype})
        made = graph.call_function(_aten.copy_.default, (x, made)) if node.target is _TOSSED[0] else made
    for one in (mask, made):
        one.meta |= {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
    node.replace_all_uses_with(made)
    graph.erase_node(node)
