# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What the exporter has no translation of: it stops at the first, and traces all of the program for the next."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch._ops import OpOverload
from torch.onnx._internal.exporter import _core

from hetpart.frontend.kept import graphs_of

if TYPE_CHECKING:
    import torch
    from torch.onnx._internal.exporter._registration import ONNXRegistry


@contextmanager
def taken_apart_once(missing: set[OpOverload]) -> Generator[None]:
    """Within it one program is exported, again and again until nothing in it lacks a translation; it is traced once.

    A translation for an operator that is in its parts already changes none of them, so whoever exports it anew goes on
    from there. ``missing`` gets all operators that have no translation.
    """
    known = _core._prepare_exported_program_for_export
    made: list[torch.export.ExportedProgram] = []

    def prepared(program: torch.export.ExportedProgram, *, registry: ONNXRegistry) -> torch.export.ExportedProgram:
        if not made:
            made.append(known(program, registry=registry))
            missing.update(target for target in _operators(made[0]) if not registry.is_registered(target))
        return made[0]

    replaced: Any = _core
    replaced._prepare_exported_program_for_export = prepared
    try:
        yield
    finally:
        replaced._prepare_exported_program_for_export = known


def _operators(program: torch.export.ExportedProgram) -> set[OpOverload]:
    """Those that return something: the exporter leaves out what only checks."""
    called = {node.target for module in graphs_of(program) for node in module.graph.nodes}
    return {target for target in called if isinstance(target, OpOverload) and target._schema.returns}
