# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""What ``torch.autocast`` is in a program: a call of the graph inside, with a device and a type.

One that is on where a model is exported is made part of the model's code, and off around it: a plan computes what the
code did there, whatever is on where it runs.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

CAST = frozenset({torch.float32, torch.float16, torch.bfloat16})
"""What it makes one type of."""
_CALLED = torch.ops.higher_order.wrap_with_autocast
_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Around:
    """The state that autocast has around code: devices it is on for, and its types there."""

    entered: tuple[tuple[str, torch.dtype], ...] = ()

    @classmethod
    def now(cls) -> Around:
        """That of the caller."""
        return cls(tuple((one, torch.get_autocast_dtype(one)) for one in _DEVICES if torch.is_autocast_enabled(one)))

    @contextmanager
    def again(self) -> Generator[None]:
        """Have it so, whatever it is."""
        with ExitStack() as stack:
            stack.enter_context(off())
            for device, dtype in self.entered:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield

    def within(self, module: torch.nn.Module) -> torch.nn.Module:
        """``module`` as code that enters it itself."""
        if not self.entered:
            return module
        held = copy.copy(module)
        held.forward = self._entering(module.forward)
        return held

    def _entering(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def entering(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for device, dtype in self.entered:
                    stack.enter_context(torch.autocast(device, dtype=dtype))
                return forward(*args, **kwargs)

        return entering


def off() -> Any:
    """A context where it is off."""
    return torch._C._DisableAutocast()


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """A graph, and the type that autocast has there; ``None`` where it is off."""

    module: GraphModule
    dtype: torch.dtype | None


def graphs_inside(owner: GraphModule, dtype: torch.dtype | None = None) -> Iterator[Inside]:
    """``owner``, where autocast has ``dtype``, and the graphs that its nodes call, once for each call."""
    for node in owner.graph.find_nodes(op="get_attr"):
        held: Any = getattr(owner, str(node.target), None)
        for user in node.users if isinstance(held, GraphModule) else ():
            yield from graphs_inside(held, _entered(user) if user.target is _CALLED else dtype)
    yield Inside(owner, dtype)


def _entered(call: torch.fx.Node) -> torch.dtype | None:
    device, dtype, is_on, *_ = call.args
    if not is_on:
        return None
    return dtype if isinstance(dtype, torch.dtype) else torch.get_autocast_dtype(str(device))
