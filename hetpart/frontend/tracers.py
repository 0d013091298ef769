# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""The ways in which PyTorch makes a program of a module: each reads some code that another does not.

``torch.export`` traces what code calls, above the part of PyTorch that differentiates: code that takes gradients, by
``torch.func.grad``, ``torch.autograd.grad`` and their like, is refused there, or left as calls that no exporter
translates. Traced below that part, gradients are operators as all others are.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.export import _trace
from torch.export._remove_effect_tokens_pass import _remove_effect_tokens
from torch.fx import GraphModule, Node
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from hetpart.frontend.autocast import Around, off

_TAKES = "_unwrap_for_grad"
"""What ``torch.func`` calls with all that it differentiated."""
_STACK = "nn_module_stack"
_ORIGIN = (_STACK, "stack_trace")
_NOWHERE = "_empty_nn_module_stack_from_metadata_hook"
"""What PyTorch says of a size that it reads itself."""
Tracer = Callable[[torch.nn.Module, tuple[Any, ...], Mapping[str, Any], Any], torch.export.ExportedProgram]
"""From a module, an example call and the sizes that are open to a program; it raises what PyTorch raises."""


@contextmanager
def unwound() -> Generator[None]:
    """Where a trace fails, halfway through what ``torch.func`` has entered, leave that as it was."""
    layers: Any = torch._C._functorch
    depth, level = layers.get_dynamic_layer_stack_depth(), forward_ad._current_level
    try:
        yield
    except Exception:
        layers.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if level < 0:  # there is one level at most
            forward_ad._current_level = level
            with suppress(RuntimeError):  # it was not entered
                torch._C._exit_dual_level(level=0)
        raise


def by_running(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    """What the code calls when Python runs it."""
    return _exported(module, args, kwargs, shapes, strict=False)


def by_dynamo(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    """What Dynamo reads in the code."""
    return _exported(module, args, kwargs, shapes, strict=True)


def _exported(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any, *, strict: bool
) -> torch.export.ExportedProgram:
    held = Around.now().within(module)
    with off():
        program = torch.export.export(held, args, dict(kwargs), dynamic_shapes=shapes, strict=strict)
    return differentiated(module, args, kwargs, shapes) if _takes_gradients(program) else program


def _takes_gradients(program: torch.export.ExportedProgram) -> bool:
    """Whether calls of ``torch.func`` that differentiate are left in ``program``."""
    modules = (module for module in program.graph_module.modules() if isinstance(module, GraphModule))
    nodes = (node for module in modules for node in module.graph.nodes)
    return any(getattr(node.target, "__name__", "") == _TAKES for node in nodes)


def differentiated(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    """What PyTorch computes when Python runs the code: gradients too, of the module and the line that take them."""
    plain: Any = torch.backends.mkldnn.flags(enabled=False)  # fused kernels have no operators of their own in ONNX
    held = copy.copy(module)
    held.forward = _recording(Around.now().within(module).forward)
    with off(), plain, sdpa_kernel(SDPBackend.MATH):
        program = _trace._export(held, args, dict(kwargs), shapes, strict=False, pre_dispatch=False)
    program = _remove_effect_tokens(program)  # by which checks of linear algebra are in order
    for node in program.graph.nodes:
        _settle_origin(node)
    return program


def _settle_origin(node: Node) -> None:
    """Let what is from no code of the user's be from where that is which it passes on."""
    for passed in node.all_input_nodes if node.target is torch.ops.aten.detach.default else ():
        node.meta |= {key: passed.meta[key] for key in _ORIGIN if key in passed.meta}
    if _NOWHERE in node.meta.get(_STACK, {}):
        del node.meta[_STACK]


def _recording(forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward`` as whoever lets it take gradients calls it; what it returns needs none."""

    @functools.wraps(forward)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            made = forward(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, _settled, made)

    return recorded


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.requires_grad else tensor
