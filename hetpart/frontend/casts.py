# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""What ``torch.autocast`` casts inside operators that stay whole in a plan, where no autocast is, written out as casts.

Others it casts before they are called, and the exporter notes that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from hetpart.frontend.autocast import CAST, graphs_inside
from hetpart.frontend.recurrent import LAYERS, projects

aten = torch.ops.aten


def settle_casts(program: torch.export.ExportedProgram) -> None:
    """Cast what operators under ``torch.autocast`` compute with and return."""
    for inside in graphs_inside(program.graph_module):
        if inside.dtype is not None:
            for node in [node for node in inside.module.graph.nodes if node.target in _SETTLE]:
                _SETTLE[node.target](node, inside.dtype)
            inside.module.recompile()


def _settle_product(node: Node, dtype: torch.dtype) -> None:
    """Of one type, that of what it returns: sums of products are cast, and products alone promoted."""
    del dtype
    if node.meta["val"].dtype in CAST:
        _cast_given(node, node.meta["val"].dtype)


def _settle_layer(node: Node, dtype: torch.dtype) -> None:
    """Of what comes back only cells beside projected rows are left as they were."""
    given: Any = node.args[0]
    kind = given.meta["val"].dtype
    if kind not in CAST:
        return
    if node.target is aten.gru.input:
        dtype = kind
    states: Any = node.args[1]
    held = [one.meta["val"] for one in (states if isinstance(states, list | tuple) else [states])]
    _cast_given(node, dtype)
    made = tuple(_in_type(one, dtype) for one in node.meta["val"])
    node.meta = {**node.meta, "val": made}  # the graph around it may have the same notes
    for user in list(node.users):
        place: Any = user.args[1]
        user.meta = {**user.meta, "val": made[place]}
        if place == 2 and projects(held) and held[1].dtype is not dtype:
            with node.graph.inserting_after(user):
                back = _cast(user, held[1].dtype)
            user.replace_all_uses_with(back, lambda one, back=back: one is not back)


def _cast_given(node: Node, dtype: torch.dtype) -> None:
    with node.graph.inserting_before(node):
        node.args = tuple(map_arg(node.args, lambda given: _cast(given, dtype)))


def _cast(given: Node, dtype: torch.dtype) -> Node:
    if not isinstance(given.meta["val"], torch.Tensor) or given.meta["val"].dtype is dtype:
        return given
    made = given.graph.call_function(aten.to.dtype, (given, dtype))
    made.meta = {**given.meta, "val": _in_type(given.meta["val"], dtype)}
    return made


def _in_type(formed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A cast would ask how open sizes lie."""
    return formed.new_empty_strided(formed.size(), formed.stride(), dtype=dtype)


_SETTLE: Mapping[Any, Callable[[Node, torch.dtype], None]] = {
    **dict.fromkeys(LAYERS, _settle_layer),
    aten.einsum.default: _settle_product,
}
