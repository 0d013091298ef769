# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Forms of what recurrent layers return, for PyTorch's tracer.

Its own rule takes as many steps as the example has and asks for their number, and whether there is one sequence alone:
a layer that is one operator of a program would be one for the example's sizes. Under ``torch.autocast`` what they
compute in is written out as casts: a layer that stays one operator meets no autocast in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import meta_table
from torch._ops import OpOverload
from torch._subclasses.fake_impls import op_implementations_dict, register_op_impl
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.node import map_arg

from hetpart.frontend.autocast import CAST, graphs_inside

aten = torch.ops.aten
LAYERS = (aten.gru.input, aten.lstm.input, aten.rnn_tanh.input, aten.rnn_relu.input)
_RULES = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


def know_layers() -> None:
    """Tell PyTorch's tracer what ``LAYERS`` return where a program keeps them whole."""
    for target in LAYERS:
        if target in op_implementations_dict:
            continue
        register_op_impl(target)(_formed)
        meta_table[target] = partial(_formed, None, target)  # else the tracer takes them apart first
        for key in _RULES:
            target.py_kernels[key] = partial(_whole_or_parts, target, target.py_kernels[key])
        target._dispatch_cache.clear()


def _whole_or_parts(target: OpOverload, parts: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Forms where nobody notes or differentiates what is done with them."""
    is_noted = get_proxy_mode() is not None or torch.is_grad_enabled() or type(args[0]) is not FakeTensor
    return parts(*args, **kwargs) if is_noted else _formed(None, target, *args, **kwargs)


def _formed(mode: Any, target: OpOverload, x: Any, first: Any, weights: Any, *settings: Any, **named: Any) -> Any:
    """The rows of the last layer, and the last states of all."""
    del mode, weights
    given = dict(zip((one.name for one in target._schema.arguments[3:]), settings, strict=False)) | named
    states = list(first) if isinstance(first, list | tuple) else [first]
    width = states[0].shape[-1] * (2 if given["bidirectional"] else 1)
    outer, inner, _ = x.shape
    dtype = _computed_in(target, x.dtype)
    if given["batch_first"]:  # the rows lie as the layer makes them, step by step
        rows = x.new_empty(inner, outer, width, dtype=dtype).transpose(0, 1)
    else:
        rows = x.new_empty(outer, inner, width, dtype=dtype)
    hidden = [x.new_empty(one.shape, dtype=dtype) for one in states[:1]]
    cells = [x.new_empty(one.shape, dtype=x.dtype if _projects(states) else dtype) for one in states[1:]]
    return (rows, *hidden, *cells)


def _computed_in(target: OpOverload, dtype: torch.dtype) -> torch.dtype:
    """Of rows in ``dtype``: those of ``aten.gru`` are a sum with its state, which autocast leaves as it is."""
    is_cast = torch.is_autocast_enabled("cpu") and dtype in CAST and target is not aten.gru.input
    return torch.get_autocast_dtype("cpu") if is_cast else dtype


def _projects(states: Sequence[Any]) -> bool:
    """Whether rows are narrower than cells: autocast leaves the cells of such layers as they are."""
    return len(states) == 2 and bool(states[0].shape[-1] != states[1].shape[-1])


def settle_layers(program: torch.export.ExportedProgram) -> None:
    """Write out what layers under ``torch.autocast`` compute in, as casts."""
    for inside in graphs_inside(program.graph_module):
        layers = [node for node in inside.module.graph.nodes if node.target in LAYERS]
        for node in layers if inside.dtype is not None else ():
            kind = node.args[0].meta["val"].dtype
            if kind in CAST:
                _settle(node, kind if node.target is aten.gru.input else inside.dtype)
                inside.module.recompile()


def _settle(node: Node, dtype: torch.dtype | None) -> None:
    states: Any = node.args[1]
    held = [one.meta["val"] for one in (states if isinstance(states, list | tuple) else [states])]
    with node.graph.inserting_before(node):
        node.args = (*map_arg(node.args[:3], lambda given: _cast(given, dtype)), *node.args[3:])
    made = tuple(_in_type(one, dtype) for one in node.meta["val"])
    node.meta = {**node.meta, "val": made}  # the graph around it may have the same notes
    for user in list(node.users):
        user.meta = {**user.meta, "val": made[user.args[1]]}
        if user.args[1] == 2 and _projects(held) and held[1].dtype is not dtype:
            with node.graph.inserting_after(user):
                back = _cast(user, held[1].dtype)
            user.replace_all_uses_with(back, lambda one, back=back: one is not back)


def _cast(given: Node, dtype: torch.dtype | None) -> Node:
    if given.meta["val"].dtype is dtype:
        return given
    made = given.graph.call_function(aten.to.dtype, (given, dtype))
    made.meta = {**given.meta, "val": _in_type(given.meta["val"], dtype)}
    return made


def _in_type(formed: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """A cast would ask how open sizes lie."""
    return formed.new_empty_strided(formed.size(), formed.stride(), dtype=dtype)
