# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A program as a module that returns all that its graph computes: what a plan of it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind


def _named(code: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """``code`` as a function whose arguments have ``names``: an export calls its inputs so."""

    def named(*given: Any) -> Any:
        return code(*given)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return named


class LiftedProgram(torch.nn.Module):
    """The graph of a program, with its weights under their names.

    It is called with the program's arguments, flat and under their names. It returns its results that are no constants,
    flat: the new content of what it changes before what it returns.
    """

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        held = {**program.state_dict, **program.constants}
        for target, tensor in held.items():
            owner = self
            *path, last = target.split(".")
            for part in path:
                if not hasattr(owner, part):
                    owner.add_module(part, torch.nn.Module())
                owner = getattr(owner, part)
            plain: Any = tensor.detach() if isinstance(tensor, torch.Tensor) else tensor
            owner.register_buffer(last, plain)
        signature = program.graph_signature
        self._graph_module = program.graph_module
        self._places = [None if spec.kind is InputKind.USER_INPUT else spec.target for spec in signature.input_specs]
        names = [spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
        self.forward = _named(self._results, names)
        self._returned = [not isinstance(spec.arg, ConstantArgument) for spec in signature.output_specs]

    def _results(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        held = dict(self.named_buffers())
        made = self._graph_module(*(next(rest) if place is None else held[place] for place in self._places))
        return tuple(item for item, kept in zip(made, self._returned, strict=True) if kept)
