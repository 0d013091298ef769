# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Operators of higher order that PyTorch runs whole, as loops, from their text.

A text is JSON: ``{"op": "while_loop", "results": 2, "args": [{"graph": …}, …]}``. What is no JSON is an object of one
entry: a tensor of the call by its number, a value of the graph it is in by its number, a small constant, a type or a
device by its name, a graph, or a dict. A graph has its calls and its result. Reading one runs nothing but operators
that PyTorch knows by name.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch._ops import OpOverload

from hetpart.frontend.calls import known_target

NAMESPACE = "hetpart_bodies"
RUN = frozenset({"while_loop", "scan", "map_impl", "flex_attention", "cond"})
"""Operators of higher order that can be run so."""
PYTHON: Mapping[str, Callable[..., Any]] = {
    name: getattr(operator, name) for name in ("getitem", "add", "sub", "mul", "floordiv", "eq", "lt", "le", "gt", "ge")
}
"""What a graph calls of Python's."""
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def results_in(text: str) -> int:
    """How many tensors the call returns."""
    return int(json.loads(text)["results"])


def operator_in(text: str) -> str:
    """What it calls."""
    return f"higher_order.{json.loads(text)['op']}"


def _run(text: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values = {"tensor": tensors, "device": tensors[0].device if tensors else torch.device("cpu")}
    made = _made(_read(text), values)
    return _apart(made, tensors)


def _apart(made: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``made``, each in memory of its own."""
    taken = {one.untyped_storage()._cdata for one in given}
    found: list[torch.Tensor] = []
    for one in made:
        own = one.clone() if one.untyped_storage()._cdata in taken else one
        taken.add(own.untyped_storage()._cdata)
        found.append(own)
    return found


@cache
def _read(text: str) -> Any:
    return json.loads(text)


def _made(call: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    args = [_given(argument, values) for argument in call["args"]]
    kwargs = {name: _given(argument, values) for name, argument in call["kwargs"].items()}
    return _operator(call["op"])(*args, **kwargs)


def _operator(name: str) -> Callable[..., Any]:
    if "::" in name:
        return known_target(name)
    if name in RUN:
        return getattr(torch.ops.higher_order, name)
    return PYTHON[name]


def _given(argument: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(argument, list):
        return tuple(_given(part, values) for part in argument)
    if not isinstance(argument, dict):
        return argument
    ((kind, what),) = argument.items()
    return _KINDS[kind](what, values)


def _computed(graph: Mapping[str, Any], device: torch.device, *inputs: Any) -> Any:
    found = list(inputs)
    values = {"value": found, "device": device}
    for call in graph["calls"]:
        made = _made(call, values)
        found.append(made)
    return _given(graph["result"], values)


def _named(name: str, values: Mapping[str, Any]) -> Any:
    del values
    return getattr(torch, name)


_KINDS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "tensor": lambda number, values: values["tensor"][number],
    "value": lambda number, values: values["value"][number],
    "graph": lambda graph, values: partial(_computed, graph, values["device"]),
    "dict": lambda parts, values: {name: _given(part, values) for name, part in parts.items()},
    "constant": lambda held, values: torch.tensor(held[1], dtype=_named(held[0], values), device=values["device"]),
    "device": lambda _, values: values["device"],
    "dtype": _named,
    "layout": _named,
    "memory_format": _named,
}


_library.define("call(str text, Tensor[] tensors) -> Tensor[]")
_library.impl("call", _run, "CompositeExplicitAutograd")
_library._register_fake("call", _run)
CALLED: OpOverload = torch.ops.hetpart_bodies.call.default
"""Runs a text."""
