# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""What ``torch.autocast`` is in a program: a call of the graph inside, with a device and a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

CAST = frozenset({torch.float32, torch.float16, torch.bfloat16})
"""What it makes one type of."""
_CALLED = torch.ops.higher_order.wrap_with_autocast


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """A graph, and the type that autocast has there; ``None`` where it is off."""

    module: GraphModule
    dtype: torch.dtype | None


def graphs_inside(owner: GraphModule, dtype: torch.dtype | None = None) -> Iterator[Inside]:
    """``owner``, where autocast has ``dtype``, and the graphs that its nodes call, once for each call."""
    for node in owner.graph.find_nodes(op="get_attr"):
        held: Any = getattr(owner, str(node.target), None)
        for user in node.users if isinstance(held, GraphModule) else ():
            yield from graphs_inside(held, _entered(user) if user.target is _CALLED else dtype)
    yield Inside(owner, dtype)


def _entered(call: torch.fx.Node) -> torch.dtype | None:
    device, dtype, is_on, *_ = call.args
    if not is_on:
        return None
    return dtype if isinstance(dtype, torch.dtype) else torch.get_autocast_dtype(str(device))
