# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Forms of what recurrent layers return, for PyTorch's tracer.

Its own rule takes as many steps as the example has and asks for their number, and whether there is one sequence alone:
a layer that is one operator of a program would be one for the example's sizes. Under ``torch.autocast`` they are
of the type that it has there.
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
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from hetpart.frontend.autocast import CAST

aten = torch.ops.aten
LAYERS = (aten.gru.input, aten.lstm.input, aten.rnn_tanh.input, aten.rnn_relu.input)
_RULES = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


def know_layers() -> None:
    """Tell PyTorch's tracer what ``LAYERS`` return where a program keeps them whole.

    Every export of a program takes the rule away again, and leaves the rest.
    """
    for target in LAYERS:
        if target not in op_implementations_dict:
            register_op_impl(target)(_formed)
        if target in meta_table:
            continue
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
    cells = [x.new_empty(one.shape, dtype=x.dtype if projects(states) else dtype) for one in states[1:]]
    return (rows, *hidden, *cells)


def _computed_in(target: OpOverload, dtype: torch.dtype) -> torch.dtype:
    """Of rows in ``dtype``: those of ``aten.gru`` are a sum with its state, which autocast leaves as it is."""
    is_cast = torch.is_autocast_enabled("cpu") and dtype in CAST and target is not aten.gru.input
    return torch.get_autocast_dtype("cpu") if is_cast else dtype


def projects(states: Sequence[Any]) -> bool:
    """Whether rows are narrower than cells: autocast leaves the cells of such layers as they are."""
    return len(states) == 2 and bool(states[0].shape[-1] != states[1].shape[-1])
