# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The node of a step that updates one parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.training.operators import record_text, update_of

if TYPE_CHECKING:
    from torch.fx import Node

    from hetpart.training.capture import Input
    from hetpart.training.optimizers import Optimizer
    from hetpart.training.writer import Writer


UPDATE_OP = "update/"
"""What names of the ops that update begin with; the parameter's name follows."""


@dataclass(frozen=True, slots=True)
class StateName:
    """A tensor that a step keeps."""

    name: str
    """The model's name of the parameter or buffer, or ``optimizer/<state>/<parameter>``."""
    given: str
    """The program's argument."""
    rounds: str = ""
    """The name of the state that it is, in half precision."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all updates of a step read, as ``operators`` describes it."""

    progress: Node
    scale: Node | None = None


def updated(
    writer: Writer, part: Input, gradient: Node, optimizer: Optimizer, common: Common
) -> list[tuple[StateName, Node]]:
    """The states of a parameter, and the new content of each.

    One that is used in half precision has a master in full precision, which is what is updated.
    """
    shape, dtype = part.node.meta["val"].shape, part.content.dtype
    halved = part.node.meta["val"].dtype != dtype
    master = writer.argument(f"master_{part.name}", shape, dtype) if halved else part.node
    given, kept = [master], [StateName(part.name, master.name)]
    for state in optimizer.state_names:
        given.append(writer.argument(f"{state}_{part.name}", shape, dtype))
        kept.append(StateName(f"optimizer/{state}/{part.name}", given[-1].name))
    if halved:
        given.append(part.node)
        kept.append(StateName(f"optimizer/half/{part.name}", part.node.name, rounds=part.name))
    arguments = (master, gradient, *given[1:], common.progress, common.scale, record_text(optimizer))
    contents = tuple(node.meta["val"] for node in given)
    target = update_of(optimizer, halved=halved)
    update = writer.call(target, arguments, contents if len(given) > 1 else contents[0], part.name)
    return list(zip(kept, writer.results(update, part.name), strict=True))
