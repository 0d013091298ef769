# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Gradients between where they are made and the updates: of all parts of a batch, and their norm."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING

import torch

from hetpart.training.operators import full
from hetpart.training.updates import StateName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from hetpart.training.capture import Input
    from hetpart.training.writer import Writer

COLLECTED = "optimizer/collected/"
"""What names of sums of gradients, and of what is kept of each part of a batch, begin with."""
_aten = torch.ops.aten


def collected(writer: Writer, part: Input, gradient: Node, progress: Node) -> tuple[StateName, Node]:
    """The sum of the gradients of a parameter over the parts of a batch, of its own type, and its new content."""
    name = part.name
    given = writer.argument(f"collected_{name}", gradient.meta["val"].shape, part.content.dtype)
    made = writer.call(torch.ops.hetpart.collect.default, (given, gradient, progress), given.meta["val"], name)
    return StateName(f"{COLLECTED}{name}", given.name), made


def collected_part(writer: Writer, name: str, part: Node, parts: int, progress: Node) -> tuple[StateName, Node]:
    """What each part of a batch was, [parts, …], and its new content; ``name`` says what of."""
    content = part.meta["val"]
    given = writer.argument(f"collected_{name}", (parts, *content.shape), content.dtype)
    made = writer.call(torch.ops.hetpart.collect_part.default, (given, part, progress), given.meta["val"])
    return StateName(f"{COLLECTED}{name}", given.name), made


def square_norm(writer: Writer, name: str, gradient: Node) -> Node:
    """Of a gradient as it is handed over, [1], in full precision."""
    content = writer.fake((1,), full(gradient.meta["val"].dtype))
    return writer.call(torch.ops.hetpart.square_norm.default, (gradient,), content, name)


def norm_of(writer: Writer, squares: Sequence[Node]) -> Node:
    """Of all gradients together, as their losses' factors leave them."""
    dtype = reduce(torch.promote_types, (square.meta["val"].dtype for square in squares))
    alike = [square if square.meta["val"].dtype == dtype else _cast(writer, square, dtype) for square in squares]
    listed = writer.call(_aten.cat.default, (alike,), writer.fake((len(squares),), dtype))
    total = writer.call(_aten.sum.default, (listed,), writer.fake((), dtype))
    return writer.call(_aten.sqrt.default, (total,), writer.fake((), dtype))


def _cast(writer: Writer, square: Node, dtype: torch.dtype) -> Node:
    return writer.call(_aten._to_copy.default, (square,), writer.fake((1,), dtype), dtype=dtype)


def scale_of(writer: Writer, norm: Node, progress: Node, most: float | None) -> Node:
    """What multiplies every gradient so that their norm is ``most`` at most: not finite where that is not."""
    arguments = (norm, progress, inf if most is None else most)
    return writer.call(torch.ops.hetpart.clipped.default, arguments, writer.fake((1,), norm.meta["val"].dtype))
