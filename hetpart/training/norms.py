# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Gradients between where they are made and the updates: of all parts of a batch, and their norm."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import torch

from hetpart.training.operators import NUMBER
from hetpart.training.updates import StateName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from hetpart.training.capture import Input
    from hetpart.training.rules import Rules
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
    """Of a gradient as it is handed over, [1]."""
    return writer.call(torch.ops.hetpart.square_norm.default, (gradient,), writer.fake((1,), NUMBER), name)


def norm_of(writer: Writer, squares: Sequence[Node]) -> Node:
    """Of all gradients together, as their losses' factors leave them."""
    listed = writer.call(_aten.cat.default, ([*squares],), writer.fake((len(squares),), NUMBER))
    total = writer.call(_aten.sum.default, (listed,), writer.fake((), NUMBER))
    return writer.call(_aten.sqrt.default, (total,), writer.fake((), NUMBER))


def scale_of(writer: Writer, norm: Node, progress: Node, rules: Rules) -> Node:
    """What multiplies every gradient so that their norm is what ``rules`` say at most."""
    arguments = (norm, progress, inf if rules.clip_norm is None else rules.clip_norm, rules.scaled)
    return writer.call(torch.ops.hetpart.clipped.default, arguments, writer.fake((1,), NUMBER))
