# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Tensors that have all of their elements: plans compute with no others."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError

if TYPE_CHECKING:
    from hetpart.frontend.example import Example


def require_dense(module: torch.nn.Module, example: Example, name: str) -> None:
    """See that ``module`` holds, and is given, tensors that have all of their elements.

    Raises:
        InvalidModelError: one has not.
    """
    given = pytree.tree_leaves((example.args, dict(example.kwargs)))
    held = chain(module.parameters(), module.buffers(), (leaf for leaf in given if isinstance(leaf, torch.Tensor)))
    layouts = sorted({str(tensor.layout) for tensor in held} - {"torch.strided"})
    if layouts:
        raise InvalidModelError(
            f"{name} holds or is given a tensor in the layout {layouts[0]}, and plans compute with dense ones",
            hint="give tensor.to_dense(), or leave that part out of what is partitioned",
        )


def require_dense_results(program: torch.export.ExportedProgram, name: str) -> None:
    """See that ``program`` makes tensors that have all of their elements.

    Raises:
        InvalidModelError: it makes another.
    """
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            raise InvalidModelError(
                f"{name} makes a tensor in the layout {value.layout} by {node.target}, and plans compute with dense "
                "ones",
                hint="write that part in dense tensors, or leave it out of what is partitioned",
            )
