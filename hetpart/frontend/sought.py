# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What PyTorch refuses to look for among none, as the largest of an axis of size 0: ONNX Runtime has an answer there.

Its tracer refuses some of it, and nothing where the size is open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from hetpart.errors import InvalidModelError
from hetpart.frontend.conditions import argument_of, given_to

aten = torch.ops.aten
_OF_SOME = frozenset({
    aten.amax.default, aten.amin.default, aten.aminmax.default, aten.argmax.default, aten.argmin.default,
    aten.max.default, aten.max.dim, aten.min.default, aten.min.dim, aten.median.dim, aten.nanmedian.dim,
    aten.mode.default, aten.kthvalue.default,
})  # fmt: skip
"""Of one axis, of several or of all."""
_LAST = frozenset({aten.mode.default, aten.kthvalue.default})
"""Of the last axis where none is named."""
_NORMS: Mapping[Any, str] = {
    aten.linalg_vector_norm.default: "ord",
    aten.norm.Scalar: "p",
    aten.norm.ScalarOpt_dim: "p",
}
"""Those where the argument says the largest, or a power below 0."""


def asked_sizes(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Open sizes in ``program`` that are to be more than 0, as SymPy has them."""
    for node in _calls(program):
        sizes = open_among(node.args[0].meta["val"], _axes(node))
        yield from (size.node.expr for size in sizes if not free_unbacked_symbols(size))


def require_some(program: torch.export.ExportedProgram, name: str) -> None:
    """Refuse what eager PyTorch refuses when it runs.

    Raises:
        InvalidModelError: an operator looks through an axis of size 0.
    """
    for node in _calls(program):
        given = node.args[0].meta["val"]
        if any(isinstance(size, int) and size == 0 for size in _sizes(given, _axes(node))):
            raise InvalidModelError(
                f"{name} has {node.name!r} look for one among none, in a tensor of {list(given.shape)}:"
                " PyTorch refuses that",
                hint="give it an example that is not empty there",
            )


def open_among(given: torch.Tensor, axes: int | Sequence[int] | None = None) -> Sequence[torch.SymInt]:
    """The sizes that are not known before a run, among those of ``axes``, or of all."""
    return [size for size in _sizes(given, axes) if isinstance(size, torch.SymInt)]


def _sizes(given: torch.Tensor, axes: int | Sequence[int] | None) -> Sequence[int | torch.SymInt]:
    named = range(given.dim()) if axes is None else [axes] if isinstance(axes, int) else axes
    return [given.shape[axis] for axis in named if given.dim()]


def _calls(program: torch.export.ExportedProgram) -> Iterator[Any]:
    return (node for node in program.graph.nodes if node.target in _OF_SOME or _is_such_norm(node))


def _axes(node: Node) -> Any:
    """Those that are looked through; nothing where it is all."""
    axes = given_to(node, "dim", -1 if node.target in _LAST else None)
    return None if axes == () else axes


def _is_such_norm(node: Node) -> bool:
    power = argument_of(node, _NORMS[node.target], 2) if node.target in _NORMS else None
    return isinstance(power, int | float) and (power < 0 or power == math.inf)
