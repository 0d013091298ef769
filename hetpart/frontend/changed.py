# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""What a module changes of itself when it is called, and PyTorch's tracer does not say: it is left as it was.

The tracer follows what the outermost module assigns to its buffers, and nothing else that is assigned: a plan would
compute with the buffers and numbers of the first call in every call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from torch._ops import OpOverload
from torch.export.graph_signature import ExportGraphSignature, OutputKind
from torch.fx import Node

from hetpart.errors import InvalidModelError

_WRITTEN = "write to a buffer where it lies, self.mean.lerp_(x, 0.1), and take it as an argument of the module"
_HINTS = {
    "buffer": "call module.eval() where training does it; else take it as an argument and return its new content",
    "weight": (
        "change it before, once: of an Embedding with max_norm=m set weight.data.renorm_(norm_type, 0, m) and then"
        " max_norm = None, which looks up the same"
    ),
}
_MUTATIONS = {
    OutputKind.BUFFER_MUTATION: "buffer",
    getattr(OutputKind, "PARAMETER_MUTATION", OutputKind.BUFFER_MUTATION): "weight",
}
"""What a plan would not change; arguments that are changed are results."""
_SHOWN = 3
Numbers = Mapping[str, int | float]


@dataclass(slots=True, eq=False)
class Changes:
    """What a call of a module changed."""

    buffers: list[str] = field(default_factory=list[str])
    """Names of those that others were put in the place of; not of the outermost module, of which PyTorch tells."""
    numbers: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By name what each was, and is."""
    before: dict[str, tuple[Mapping[str, Any], Numbers]] = field(default_factory=dict[str, Any])
    """What the parts held when the call began, by path."""

    def begin(self, module: nn.Module, _: Any) -> None:
        """Look at ``module`` before a call. Dynamo, which reads this too, refuses what assigns or follows it."""
        if not torch.compiler.is_dynamo_compiling():
            self.before = {path: (dict(owner._buffers), _numbers(owner)) for path, owner in _parts(module)}

    def end(self, module: nn.Module, _: Any, __: Any) -> None:
        """Look at it behind the call."""
        for path, owner in () if torch.compiler.is_dynamo_compiling() else _parts(module):
            buffers, numbers = self.before.get(path, ({}, {}))
            there = cast("dict[str, Any]", owner._buffers)
            self.buffers += [f"{path}.{name}" for name, held in buffers.items() if path and there.get(name) is not held]
            for name, number in _numbers(owner).items():
                if numbers.get(name, number) != number:
                    self.numbers[f"{path}.{name}".removeprefix(".")] = numbers[name], number


@contextmanager
def watched(module: nn.Module) -> Generator[Changes]:
    """What calls of ``module`` within change: PyTorch puts all back behind a trace."""
    found = Changes()
    handles = module.register_forward_pre_hook(found.begin), module.register_forward_hook(found.end)
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(cast("Iterator[tuple[str, nn.Module]]", module.named_modules()))


def _numbers(owner: nn.Module) -> Numbers:
    return {name: value for name, value in vars(owner).items() if type(value) in (int, float)}


def notes_of_changes(found: Changes, program: torch.export.ExportedProgram, name: str) -> Iterator[str]:
    """What to tell of ``program``, in the trace of which that changed.

    Raises:
        InvalidModelError: the module computes with a buffer and assigns another one, or changes a fraction.
    """
    read = {spec.target for spec in program.graph_signature.input_specs if _is_read(program, spec)}
    for buffer in found.buffers:
        if buffer in read:
            raise InvalidModelError(
                f"{name} assigns the buffer {buffer!r} when it is called, which a plan would not do", hint=_WRITTEN
            )
    for number, (first, then) in found.numbers.items():
        if isinstance(first, float):
            raise InvalidModelError(
                f"{name} changes the number {number!r} from {first} to {then} when it is called, which a plan would not"
                " do",
                hint="take it as an argument of the module",
            )
        yield f"{name} changes the number {number!r} from {first} to {then} when it is called; the plan does not"


def _is_read(program: torch.export.ExportedProgram, spec: Any) -> bool:
    return any(node.name == spec.arg.name and node.users for node in program.graph.find_nodes(op="placeholder"))


def require_same_memory(program: torch.export.ExportedProgram, name: str) -> None:
    """Raise where a program gives other memory to what it is called with or holds: PyTorch loses some of these."""
    whose = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        if getattr(node.target, "overloadpacket", None) is not torch.ops.aten.set_:
            continue
        given = _written_in_place(node)
        if given.op == "placeholder":
            spec = whose[given.name]
            what = f"the argument {given.name!r}" if spec.target is None else repr(spec.target)
            raise InvalidModelError(
                f"{name} gives {what} other memory when it is called, with x.data = y, x.set_(y) or x.resize_(size),"
                " which a plan would not do",
                hint="compute with a tensor of its own in that place, y = x.clone(), or change a weight before, once",
            )


def _written_in_place(node: Node) -> Node:
    """The tensor that ``node``, and what wrote to it before, returns."""
    while isinstance(node.target, OpOverload) and node.target._schema.is_mutable and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def require_unchanged(signature: ExportGraphSignature, name: str) -> None:
    """Raise where a program says itself that it changes what the module holds."""
    kinds = [(_MUTATIONS[spec.kind], str(spec.target)) for spec in signature.output_specs if spec.kind in _MUTATIONS]
    if kinds:
        changed = ", ".join(f"the {kind} {target!r}" for kind, target in kinds[:_SHOWN])
        more = f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
        raise InvalidModelError(
            f"{name} changes {changed}{more} when it is called, which a plan would not do", hint=_HINTS[kinds[0][0]]
        )
