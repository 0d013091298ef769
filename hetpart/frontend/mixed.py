# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""Operators that PyTorch's kernels refuse for tensors of several types, and its tracer, which runs none, lets pass."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, cast

import torch
from torch.fx import Node

from hetpart.errors import InvalidModelError
from hetpart.frontend.autocast import CAST, graphs_inside
from hetpart.graph.provenance import line_of

TYPES_HINT = (
    "give all of them in one type, x.to(dtype), or let module.to(dtype) have the weights in that of the argument;"
    " torch.autocast mixes float32, float16 and bfloat16"
)
aten = torch.ops.aten
_ALL = ()
_SET = (aten.index_put, aten.index_put_)
_ALIKE: Mapping[Any, tuple[str, ...]] = {
    **dict.fromkeys((aten.linear, aten.matmul, aten.mm, aten.addmm, aten.mv, aten.bmm, aten.baddbmm), _ALL),
    **dict.fromkeys((aten.conv1d, aten.conv2d, aten.conv3d, aten.convolution), _ALL),
    **dict.fromkeys((aten.conv_transpose1d, aten.conv_transpose2d, aten.conv_transpose3d), _ALL),
    **dict.fromkeys((aten.cdist, aten._cdist_forward, aten.linalg_cross, aten.grid_sampler, aten.polar), _ALL),
    **dict.fromkeys(_SET, ("self", "values")),
    **dict.fromkeys((aten.index_add, aten.index_add_, aten.index_copy, aten.index_copy_), ("self", "source")),
}
"""By operator the arguments that are to be of one type; all tensors where none are named."""


def require_one_type(program: torch.export.ExportedProgram, name: str) -> None:
    """Refuse what eager PyTorch refuses when it runs.

    Raises:
        InvalidModelError: an operator is given tensors of types that it does not mix.
    """
    for inside in graphs_inside(program.graph_module):
        for node in inside.module.graph.nodes:
            found = _types(node) if getattr(node.target, "overloadpacket", None) in _ALIKE else {}
            others = {torch.float32 if inside.dtype and dtype in CAST else dtype for dtype in found.values()}
            if len(others) > 1:
                raise _refusal(node, found, name)


def _types(node: Node) -> dict[str, torch.dtype]:
    """Those of the arguments of ``node`` that are to be of one."""
    target: Any = node.target
    wanted = _ALIKE[target.overloadpacket]
    given = chain(zip((one.name for one in target._schema.arguments), node.args, strict=False), node.kwargs.items())
    values = {key: one.meta.get("val") for key, one in given if isinstance(one, Node) and (not wanted or key in wanted)}
    if target.overloadpacket in _SET and _fills(node):
        return {}
    return {key: value.dtype for key, value in values.items() if isinstance(value, torch.Tensor)}


def _fills(node: Node) -> bool:
    """Whether it sets what one mask selects to one number: eager PyTorch fills then, with a number of any type."""
    whole, indices, value, *rest = node.args
    one, given = (part.meta.get("val") if isinstance(part, Node) else None for part in (whole, value))
    masks = [part.meta.get("val") for part in cast("list[Any]", indices) if isinstance(part, Node)]
    if not isinstance(one, torch.Tensor) or not isinstance(given, torch.Tensor) or any(rest) or node.kwargs:
        return False
    is_number = given.device.type == "cpu" and all(type(size) is int and size == 1 for size in given.shape)
    is_one_mask = len(masks) == 1 and masks[0] is not None and masks[0].dtype is torch.bool
    return is_number and is_one_mask and (one.is_complex() or not given.is_complex())


def _refusal(node: Node, found: Mapping[str, torch.dtype], name: str) -> InvalidModelError:
    stack: Any = node.meta.get("nn_module_stack") or {}
    paths = [str(path) for path, _ in stack.values() if path]
    inside = f" of {paths[-1]!r}" if paths else ""
    line = line_of(str(node.meta.get("stack_trace") or ""))
    types = ", ".join(f"{key} in {str(dtype).removeprefix('torch.')}" for key, dtype in found.items())
    return InvalidModelError(
        f"{name} gives {node.name!r}{inside}{f', {line},' if line else ''} {types}: PyTorch mixes no types there",
        hint=TYPES_HINT,
    )
