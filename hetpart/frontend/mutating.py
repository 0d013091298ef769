# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Calls of custom operators that write to their arguments, each in the place of one that writes to copies.

PyTorch wraps such a call in an operator of higher order when it makes a program functional, and no exporter translates
that. What is written here is copied to the argument by an operator of PyTorch's, which it knows how to do without.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.export.graph_signature import ExportGraphSignature, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError
from hetpart.frontend.copying import copying, plain_returns, shared_returns, written_arguments
from hetpart.frontend.said import quiet

_SHIPPED = frozenset({"aten", "prims", "prim"})
_WRAPPED = "auto_functionalized"
_KNOWN = ("val", "example_value")
"""What the trace knows of a node's result: that of an export, and of Dynamo."""
_IN_PLACE = frozenset(
    {"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior"}
)
"""What Python calls where it writes to a tensor."""
_HINT = "register an operator that returns what it computes"


def without_mutating(program: torch.export.ExportedProgram, name: str) -> torch.export.ExportedProgram:
    """``program`` without custom operators that write to their arguments; a copy, where it has some.

    Raises:
        InvalidModelError: one is where that cannot be, or PyTorch wrapped it before.
    """
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, GraphModule)]
    for graph in graphs:
        _require_unwrapped(graph, name)
    if not any(True for graph in graphs for _ in _mutating(graph)):
        return program
    made = copy.deepcopy(program.graph_module)
    write_copies(made, name)
    with quiet():
        return program._update(made, _renamed(program.graph_signature, made.graph))


def _renamed(signature: ExportGraphSignature, graph: Graph) -> ExportGraphSignature:
    """``signature`` with the results called as in ``graph``."""
    results: Any = graph.output_node().args[0]
    renamed = [
        replace(spec, arg=TensorArgument(result.name)) if isinstance(spec.arg, TensorArgument) else spec
        for spec, result in zip(signature.output_specs, results, strict=True)
    ]
    return ExportGraphSignature(list(signature.input_specs), renamed)


def _require_unwrapped(graph: Graph, name: str) -> None:
    for node in graph.nodes:
        if _WRAPPED in str(node.target):
            raise InvalidModelError(
                f"{name} uses {node.args[0]}, which writes to its arguments, as run_decompositions wraps it",
                hint="give the program as torch.export.export returns it, or the module itself",
            )


def write_copies(module: GraphModule, name: str) -> None:
    """Let the graphs of ``module``, those of its branches too, copy what custom operators write where they would.

    Raises:
        InvalidModelError: one writes to tensors in a list, or to one that it is given twice.
    """
    for part in (part for part in module.modules() if isinstance(part, GraphModule)):
        for node in list(_mutating(part.graph)):
            if part is not module:
                _require_made_inside(node, name)
            _rewrite(node, name)
        part.recompile()


def _require_made_inside(node: Node, name: str) -> None:
    """Raise where ``node``, of a branch or a loop, writes to what that is given."""
    target = _target(node)
    places = [] if target is None else _written_by(node, target).values()
    if any(isinstance(place, Node) and _base(place).op == "placeholder" for place in places):
        raise InvalidModelError(f"{name} uses {target}, which writes to what a branch or a loop is given", hint=_HINT)


def _mutating(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if (target := _target(node)) is not None and _is_rewritten(target))


def _is_rewritten(target: OpOverload) -> bool:
    return bool(written_arguments(target) or shared_returns(target))


def _target(node: Node) -> OpOverload | None:
    """The custom operator that ``node`` calls."""
    called: Any = node.target if node.op == "call_function" else None
    target = getattr(called, "default", None) if isinstance(called, OpOverloadPacket) else called
    return target if isinstance(target, OpOverload) and target.namespace not in _SHIPPED else None


def _rewrite(node: Node, name: str) -> None:
    target = _target(node)
    assert target is not None
    places = _written_by(node, target)
    if shared_returns(target):
        _require_unwritten(node, target, name)
    _require_own(node, target, places, name)
    plain = plain_returns(target)
    with node.graph.inserting_before(node):
        call = node.graph.call_function(copying(target, list(places)), node.args, dict(node.kwargs))
        results = _results(call, node, plain, list(places.values()))
        for place, written in zip(places.values(), results[len(plain) :], strict=True):
            copied = node.graph.call_function(torch.ops.aten.copy_.default, (place, written))
            copied.meta = dict(written.meta)
    returned: dict[int, Node] = dict(zip(plain, results, strict=False))
    for number, one in enumerate(target._schema.returns):
        if one.alias_info and one.alias_info.is_write:
            returned[number] = next(
                places[argument.name]
                for argument in target._schema.arguments
                if argument.alias_info and argument.alias_info.before_set == one.alias_info.before_set
            )
    _replace(node, returned, several=len(target._schema.returns) > 1)


def _written_by(node: Node, target: OpOverload) -> dict[str, Any]:
    given = dict(zip((one.name for one in target._schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    return {name: given[name] for name in written_arguments(target) if given.get(name) is not None}


def _require_own(node: Node, target: OpOverload, places: dict[str, Any], name: str) -> None:
    """Raise where what is written is no tensor of its own among the arguments."""
    if not all(isinstance(place, Node) for place in places.values()):
        raise InvalidModelError(f"{name} uses {target}, which writes to tensors in a list", hint=_HINT)
    given = pytree.tree_leaves((node.args, node.kwargs))
    found = [_base(one) for one in given if isinstance(one, Node)]
    twice = [place for place in places.values() if found.count(_base(place)) > 1]
    if twice or (not places and written_arguments(target)):
        raise InvalidModelError(
            f"{name} uses {target}, which writes to its arguments, and gives it one of them twice", hint=_HINT
        )


def _require_unwritten(node: Node, target: OpOverload, name: str) -> None:
    """Raise where what ``node`` returns may be written to, or what it is a view of: it becomes a copy."""
    family = {_origin(one) for one in node.all_input_nodes}
    for other in node.graph.nodes:
        if other is not node and _writes(other) and {_origin(one) for one in other.all_input_nodes[:1]} & family:
            raise InvalidModelError(
                f"{name} uses {target}, which returns a view, and {other.name!r} writes to what it may be a view of",
                hint="register it with a result of its own, as x.view(…).clone(), and without (a) in its schema",
            )


def _origin(node: Node) -> Node:
    """What ``node`` is made of at first."""
    while node.op.startswith("call") and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _writes(node: Node) -> bool:
    if isinstance(node.target, OpOverload):
        return node.target._schema.is_mutable
    named = str(node.target if isinstance(node.target, str) else getattr(node.target, "__name__", ""))
    return node.op.startswith("call") and (named in _IN_PLACE or (named.endswith("_") and not named.endswith("__")))


def _base(node: Node) -> Node:
    """What ``node`` is a view of."""
    while isinstance(node.target, OpOverload) and node.target.is_view and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _results(call: Node, node: Node, plain: list[int], places: list[Node]) -> list[Node]:
    """What ``call`` returns, in the place of what ``node`` does and writes."""
    call.meta = dict(node.meta)
    single = len(plain) + len(places) == 1
    results = (
        [call]
        if single
        else [node.graph.call_function(operator.getitem, (call, number)) for number in range(len(plain) + len(places))]
    )
    for key in (key for key in _KNOWN if any(key in one.meta for one in (node, *places))):
        whole = node.meta.get(key)
        values = [whole[number] if isinstance(whole, list | tuple) else whole for number in plain]
        values += [place.meta[key] for place in places]
        call.meta[key] = values[0] if single else tuple(values)
        for result, value in zip(results, values, strict=True):
            result.meta = dict(node.meta) | {key: value}
    return results


def _replace(node: Node, returned: dict[int, Node], *, several: bool) -> None:
    for user in list(node.users):
        if several:
            assert user.target is operator.getitem
            user.replace_all_uses_with(returned[int(user.args[1])])  # pyright: ignore[reportArgumentType]
            user.graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(returned[0])
    node.graph.erase_node(node)
