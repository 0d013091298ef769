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
_LAID: Mapping[Any, int] = {
    **dict.fromkeys((aten.conv1d.default, aten.conv1d.padding, aten.adaptive_max_pool1d.default), 1),
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding, aten.adaptive_max_pool2d.default), 2),
    **dict.fromkeys((aten.conv3d.default, aten.conv3d.padding, aten.adaptive_max_pool3d.default), 3),
}
"""What lays windows over its last axes, as many as this, which PyTorch refuses where there is nothing."""
_ENDING = frozenset({aten.group_norm.default, aten.instance_norm.default, aten.gru.input, aten.lstm.input})
"""Of none ONNX Runtime's kernels of these end the process; where no size is open PyTorch runs them."""


def asked_sizes(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Open sizes in ``program`` that are to be more than 0, as SymPy has them."""
    for node in program.graph.nodes:
        if _seeks(node):
            yield from _asked(node, _axes(node))
        elif node.target in _LAID:
            yield from _asked(node, range(-_LAID[node.target], 0))
        elif node.target in _ENDING:
            yield from _asked(node, None)


def _asked(node: Node, axes: int | Sequence[int] | None) -> Iterator[Any]:
    first: Any = node.args[0]
    sizes = open_among(first.meta["val"], axes)
    return (size.node.expr for size in sizes if not free_unbacked_symbols(size))


def require_some(program: torch.export.ExportedProgram, name: str) -> None:
    """Refuse what eager PyTorch refuses when it runs.

    Raises:
        InvalidModelError: an operator looks through an axis of size 0.
    """
    for node in filter(_seeks, program.graph.nodes):
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


def _seeks(node: Node) -> bool:
    power = argument_of(node, _NORMS[node.target], 2) if node.target in _NORMS else None
    is_such_norm = isinstance(power, int | float) and (power < 0 or power == math.inf)
    return node.target in _OF_SOME or is_such_norm


def _axes(node: Node) -> Any:
    """Those that are looked through; nothing where it is all."""
    axes = given_to(node, "dim", -1 if node.target in _LAST else None)
    return None if axes == () else axes
