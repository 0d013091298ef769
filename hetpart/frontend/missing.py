# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What the exporter has no translation of: it stops at the first, after it has traced all of the program anew."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch._ops import OpOverload
from torch.onnx._internal.exporter import _fx_passes

from hetpart.frontend.kept import graphs_of

if TYPE_CHECKING:
    import torch
    from torch.onnx._internal.exporter._registration import ONNXRegistry


@contextmanager
def missing_into(missing: set[OpOverload]) -> Generator[None]:
    """Add to ``missing`` all operators in what is exported within that have no translation, once it is taken apart."""
    known = _fx_passes.decompose_with_registry

    def taken_apart(program: torch.export.ExportedProgram, registry: ONNXRegistry) -> torch.export.ExportedProgram:
        made = known(program, registry)
        missing.update(filter(lambda target: not registry.is_registered(target), _operators(made)))
        return made

    replaced: Any = _fx_passes
    replaced.decompose_with_registry = taken_apart
    try:
        yield
    finally:
        replaced.decompose_with_registry = known


def _operators(program: torch.export.ExportedProgram) -> set[OpOverload]:
    """Those that return something: the exporter leaves out what only checks."""
    called = {node.target for module in graphs_of(program) for node in module.graph.nodes}
    return {target for target in called if isinstance(target, OpOverload) and target._schema.returns}
