# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Pins on code: PyTorch's notes on what is traced within."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from hetpart.errors import HetpartError, HetpartWarning, InvalidOptionError
from hetpart.frontend.example import require_pytorch

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph, Node

CUSTOM_KEY = "hetpart.pin"
"""Of PyTorch's own notes on FX nodes."""
_BACKEND = "hetpart"
"""Its name at ``torch.compile``."""
_entered: ContextVar[tuple[str, ...]] = ContextVar("hetpart.pin", default=())
"""Devices of the pins that Python runs within; the last is the innermost."""
_OUTSIDE = ("placeholder", "output")
PIN_HINT = 'write hetpart.pin(model.encoder, "cpu"), or `with hetpart.pin("cpu"):` around code'


def is_compiled() -> bool:
    """Whether Dynamo reads this as code that it compiles: PyTorch's own note is what it knows."""
    return "torch" in sys.modules and sys.modules["torch"].compiler.is_dynamo_compiling()


class PinnedCode:
    """A pin on the ops that code makes while it is exported; otherwise it changes nothing."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._entered: list[ExitStack] = []

    def __call__(self, func: Any) -> Any:
        """``func`` with the pin around every call; of a module's class, around its ``forward``."""
        if isinstance(func, type):
            owner = cast("Any", func)
            if not hasattr(owner, "forward"):
                raise InvalidOptionError(
                    f"pin cannot be given the class {owner.__name__}: it is no module", hint=PIN_HINT
                )
            owner.forward = self(owner.forward)
            return owner
        device = self.device

        @wraps(func)
        def pinned(*args: Any, **kwargs: Any) -> Any:
            with noted(device):
                return func(*args, **kwargs)

        return pinned

    def __enter__(self) -> Self:
        stack = ExitStack()
        stack.enter_context(noted(self.device))
        self._entered.append(stack)
        _warn_of_break(self.device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().close()


def noted(device: str) -> Any:
    """PyTorch's own note on every FX node that is traced within, whoever traces."""
    require_pytorch("hetpart.pin")
    from torch.fx import traceback

    if not hasattr(traceback, "annotate"):
        raise HetpartError(
            "pins on code need torch.fx.traceback.annotate, which this PyTorch lacks",
            hint="pip install --upgrade torch, or pin the module: hetpart.pin(model.fc1, 'cpu')",
        )
    return traceback.annotate({CUSTOM_KEY: device}) if is_compiled() else _kept(device)


@contextmanager
def _kept(device: str) -> Generator[None]:
    """The pin in force in this thread, and on what is traced in it: notes are the process's, and others may run too."""
    before = _entered.set((*_entered.get(), device))
    try:
        with noted_on_nodes(device) if _is_traced() else nullcontext():
            yield
    finally:
        _entered.reset(before)


def _is_traced() -> bool:
    """Whether the code that runs is read by ``torch.export`` or ``torch.fx.symbolic_trace``."""
    from torch.fx._symbolic_trace import is_fx_symbolic_tracing
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None or is_fx_symbolic_tracing()


@contextmanager
def noted_on_nodes(device: str) -> Generator[None]:
    """PyTorch's own note on FX nodes, also where nobody has asked that notes be kept; none of a device ``""``."""
    from torch.fx import traceback

    if not device:
        yield
        return
    # In this order: annotate writes to a dict that the other, which copies no deeper, would bring back.
    with traceback.annotate({CUSTOM_KEY: device}), traceback.preserve_node_meta():
        yield


def _warn_of_break(device: str) -> None:
    """Warn where Python runs code that ``torch.compile`` was to give to hetpart, and a pin is around it."""
    if is_compiled() or "torch._dynamo" not in sys.modules:
        return
    from torch._C._dynamo import eval_frame

    asked: Any = eval_frame.get_eval_frame_callback()
    while asked and getattr(asked, "compiler_name", "") != _BACKEND:
        asked = getattr(asked, "_torchdynamo_orig_backend", None)
    if asked:
        warnings.warn(
            f'code within `with hetpart.pin("{device}"):` breaks the graph, and torch.compile leaves its function to'
            " PyTorch then: only what that calls has plans\n  hint: end the block before the break and begin another"
            " behind it; TORCH_LOGS=graph_breaks says where the break is",
            HetpartWarning,
            stacklevel=3,
        )


def note_in_force(graph: Graph) -> None:
    """Let nodes of ``graph`` without a pin of their own have that which Python runs within."""
    device = in_force()
    for node in graph.nodes if device else ():
        node.meta["custom"] = {CUSTOM_KEY: device, **node.meta.get("custom", {})}


@contextmanager
def without_notes() -> Generator[None]:
    """Leave what is in force out of what is traced again: there nodes have notes of their own."""
    from torch.fx import traceback

    with traceback.preserve_node_meta(traceback.has_preserved_node_meta()):
        traceback.current_meta.pop("custom", None)
        yield


def with_notes(module: torch.nn.Module) -> torch.nn.Module:
    """``module`` itself or, where it is a GraphModule with pins on nodes, one whose code has them in force."""
    from torch.fx import GraphModule

    if not isinstance(module, GraphModule) or not any(map(_device_of, module.graph.nodes)):
        return module
    held, otherwise = GraphModule(module, copy.deepcopy(module.graph), type(module).__name__), in_force()
    before = otherwise
    for node in list(held.graph.nodes):
        device = otherwise if node.op in _OUTSIDE else _device_of(node) or otherwise
        if device != before:
            with held.graph.inserting_before(node):
                held.graph.call_function(_put_in_force, (device,))
        before = device
    held.recompile()
    return held


def _device_of(node: Node) -> str:
    return str(node.meta.get("custom", {}).get(CUSTOM_KEY, ""))


def in_force() -> str:
    """The device of the innermost pin that Python runs within; ``""`` where there is none."""
    return next(reversed(_entered.get()), "")


def _put_in_force(device: str) -> None:
    from torch.fx import traceback

    noted: dict[str, Any] = traceback.current_meta.setdefault("custom", {})
    noted[CUSTOM_KEY] = device
