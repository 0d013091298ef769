# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Names of their own for calls that the exporter would translate wrongly, while a program is translated."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from hetpart.frontend.conditions import Concerned, always
from hetpart.frontend.divided import DIVIDED
from hetpart.frontend.halves import LOST
from hetpart.frontend.parts import OWN
from hetpart.frontend.staying import KEPT

NAMESPACE = "hetpart_kept"
"""Of the names that such calls have while a program is translated: all calls of an operator have one translation."""
_VIEWS: Mapping[OpOverload, OpOverload] = {
    torch.ops.prims.squeeze.default: torch.ops.aten.squeeze.dims,
    torch.ops.prims.transpose.default: torch.ops.aten.permute.default,
    torch.ops.prims.view_of.default: torch.ops.aten.alias.default,
}
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
_BROADCAST = torch.ops.prims.broadcast_in_dim.default
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_original: dict[OpOverload, OpOverload] = {}
_renamed: dict[tuple[OpOverload, tuple[str, ...]], OpOverload] = {}


def parts_of(program: torch.export.ExportedProgram) -> dict[OpOverload, Callable[..., Any]]:
    """How the operators in ``program`` are taken apart that go wrong whole; with what lies in their parts."""
    if not any(_concerns(DIVIDED, node) for node in _calls(program)):
        return {}
    return _parts_of(DIVIDED)


def parts_of_all() -> dict[OpOverload, Callable[..., Any]]:
    """How the operators are taken apart that go wrong whole whatever they are given."""
    return _parts_of(target for target, concerned in DIVIDED.items() if concerned is always)


def _parts_of(targets: Iterable[OpOverload]) -> dict[OpOverload, Callable[..., Any]]:
    return {target: _divided()[target] for target in targets}


@cache
def _divided() -> dict[OpOverload, Callable[..., Any]]:
    """PyTorch makes its whole table anew each time it is asked for one."""
    known = {**torch.export.default_decompositions(), **decomposition_table, **OWN}
    return {target: known[target] for target in DIVIDED}


@contextmanager
def apart(program: torch.export.ExportedProgram) -> Generator[None]:
    """Let the calls of ``program`` that go right whole have names of their own within."""
    before = own_names(program)
    for node in _calls(program):
        if node.target in DIVIDED and node.target not in LOST and not _concerns(DIVIDED, node):
            _keep(node)
    try:
        yield
    finally:
        restore(program, before)


@contextmanager
def kept(program: torch.export.ExportedProgram) -> Generator[set[OpOverload]]:
    """Let the calls of ``program`` that stay PyTorch's have names of their own within; which names those are."""
    for node in _calls(program):
        if _concerns(KEPT, node):
            _keep(node)
    try:
        yield own_names(program)
    finally:
        restore(program)


def keep(program: torch.export.ExportedProgram, names: AbstractSet[str]) -> bool:
    """Let the calls ``names`` outside branches and loops stay PyTorch's too, where they can; whether one does."""
    able = [node for node in _calls(program) if node.graph is program.graph and node.name in names and _can_stay(node)]
    for node in able:
        _keep(node)
    return bool(able)


def own_names(program: torch.export.ExportedProgram) -> set[OpOverload]:
    """The names of the calls of ``program`` that stay PyTorch's."""
    return {node.target for node in _calls(program) if isinstance(node.target, OpOverload) and node.target in _original}


def _can_stay(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target not in _original and not node.target.is_view


def _keep(node: Node) -> None:
    assert isinstance(node.target, OpOverload)
    node.target = _under_own_name(node.target, _numbers(node))


def name_views(program: torch.export.ExportedProgram) -> None:
    """Call views by the names that PyTorch takes apart: the exporter's own parts have others, that do not go twice."""
    for node in list(_calls(program)):
        if node.target is _BROADCAST:
            _expand(node)
        elif isinstance(node.target, OpOverload):
            node.target = _VIEWS.get(node.target, node.target)


def _expand(node: Node) -> None:
    made, sizes, axes = node.args
    assert isinstance(sizes, list | tuple)
    assert isinstance(axes, list | tuple)
    with node.graph.inserting_before(node):
        for axis in range(len(sizes)):
            if axis not in axes:
                made = node.graph.call_function(torch.ops.aten.unsqueeze.default, (made, axis))
                made.meta = {key: what for key, what in node.meta.items() if key != "val"}
    node.target, node.args = torch.ops.aten.expand.default, (made, sizes)


def wrong_in(program: torch.export.ExportedProgram) -> set[str]:
    """Names of the calls in ``program`` that are to stay PyTorch's."""
    return {node.name for node in _calls(program) if _concerns(KEPT, node)}


def restore(program: torch.export.ExportedProgram, but: AbstractSet[OpOverload] = frozenset()) -> None:
    """Let all calls in ``program``, but those of operators in ``but``, have PyTorch's names."""
    for node in _calls(program):
        if isinstance(node.target, OpOverload) and node.target not in but:
            node.target = original_of(node.target)
    for module in graphs_of(program):
        module.recompile()


def _concerns(table: Mapping[OpOverload, Concerned], node: Node) -> bool:
    concerned = table.get(node.target) if isinstance(node.target, OpOverload) else None
    return concerned is not None and concerned(node)


def _calls(program: torch.export.ExportedProgram) -> Iterator[Node]:
    """Those in branches and loops too."""
    return (node for module in graphs_of(program) for node in module.graph.nodes if node.op == "call_function")


def graphs_of(program: torch.export.ExportedProgram) -> Iterator[GraphModule]:
    """Its graph, and those of its branches and loops."""
    whole: GraphModule = program.graph_module
    return (module for module in whole.modules() if isinstance(module, GraphModule))


def _numbers(node: Node) -> tuple[str, ...]:
    """The arguments for tensors that are given numbers, as PyTorch's own operators may be."""
    assert isinstance(node.target, OpOverload)
    known = node.target._schema.arguments
    return tuple(
        one.name for one, given in zip(known, node.args, strict=False)
        if str(one.type) == "Tensor" and isinstance(_known(given), _NUMBERS)
    )  # fmt: skip


def _known(given: Any) -> Any:
    """What the trace knows of an argument."""
    return given.meta.get("val") if isinstance(given, Node) else given


def _under_own_name(target: OpOverload, numbers: tuple[str, ...]) -> OpOverload:
    """An operator that does what ``target`` does; its arguments ``numbers`` are numbers."""
    if (target, numbers) not in _renamed:
        name = "_".join([str(target).replace(".", "_"), *numbers])
        schema = str(target._schema)
        for number in numbers:
            schema = schema.replace(f"Tensor {number}", f"Scalar {number}")
        _library.define(f"{name}{schema[schema.index('(') :]}")
        _library._register_fake(name, partial(_call, target))  # it is traced alone, and never run
        own = getattr(getattr(torch.ops, NAMESPACE), name).default
        _renamed[target, numbers], _original[own] = own, target
    return _renamed[target, numbers]


def _call(target: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


def original_of(target: OpOverload) -> OpOverload:
    """What PyTorch calls an operator that has a name of its own here."""
    return _original.get(target, target)
