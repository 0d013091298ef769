# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Operators that compute the same however the memory of their operands looks.

PyTorch asks whether operands are contiguous, or lie channels last, and notes for which sizes it found so: a layer over
what is transposed would be for batches above 1 alone. Results are equal whichever way it goes; whether they are what
was given, or a copy, counts where one of the two is written to.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_OF_CONVOLUTIONS = ("_select_conv_backend", "_conv_determine_backend_memory_format")
"""What tells who runs one, and in which layout its result is; what sizes must be, its form asks besides."""


@contextmanager
def layouts_unasked(*, are_shared: bool = True) -> Generator[None]:
    """Within it PyTorch runs products, and takes them apart, and makes no conditions of layouts.

    Nor does ``contiguous``, but where results ``are_shared`` with what may be written to.
    """
    known = _NEW if are_shared else _NEW | _SHARED

    def of_operator(call: Callable[..., Any]) -> Callable[..., Any]:
        def quieter(func: Any, /, *args: Any, **kwargs: Any) -> Any:
            return _run(known, func, args, kwargs, lambda: call(func, *args, **kwargs))

        return quieter

    def of_mode(call: Callable[..., Any]) -> Callable[..., Any]:
        def quieter(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _run(known, func, args, kwargs or {}, lambda: call(mode, func, types, args, kwargs or {}))

        return quieter

    def of_convolution(told: Callable[..., Any]) -> Callable[..., Any]:
        def quieter(*args: Any, **kwargs: Any) -> Any:
            return _unnoted(args, lambda: told(*args, **kwargs))

        return quieter

    with ExitStack() as replaced:
        for owner, name, quieter in (
            (OpOverload, "__call__", of_operator),
            (FakeTensorMode, "dispatch", of_mode),
            *((torch._C, name, of_convolution) for name in _OF_CONVOLUTIONS),
        ):
            asking = getattr(owner, name)
            replaced.callback(setattr, owner, name, asking)
            setattr(owner, name, quieter(asking))
        yield


@contextmanager
def sharing_unasked() -> Generator[list[torch.Tensor]]:
    """Within it ``contiguous`` makes no conditions in code; it gives what was made contiguous."""
    made: list[torch.Tensor] = []
    asking = torch.Tensor.contiguous
    is_outer = "contiguous" not in vars(torch.Tensor)  # it is its parent's

    def contiguous(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not any(_open_sizes(tensor)):
            return asking(tensor, *args, **kwargs)
        made.append(tensor)
        return _unnoted(tensor, lambda: asking(tensor, *args, **kwargs))

    torch.Tensor.contiguous = contiguous  # layers of PyTorch call it, where no mode sees it
    try:
        yield made
    finally:
        if is_outer:
            del torch.Tensor.contiguous
        else:
            torch.Tensor.contiguous = asking


def writes(program: torch.export.ExportedProgram) -> bool:
    """Whether an operator of ``program`` writes to what it is given."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    called = (node.target for graph in graphs for node in graph.nodes)
    return any(isinstance(target, OpOverload) and target._schema.is_mutable for target in called)


Asked = Callable[..., bool]


def _run(
    known: Mapping[Any, Asked], func: Any, args: Sequence[Any], named: Mapping[str, Any], call: Callable[[], Any]
) -> Any:
    """``call``, unnoted where all that ``func`` asks of open sizes besides layouts is asked here."""
    is_known = func in known and bool(args) and known[func](*args, **named)
    return _unnoted(args, call) if is_known else call()


def _unnoted(given: Any, call: Callable[[], Any]) -> Any:
    """What ``call`` returns, which chooses by the example; the choices are forgotten."""
    envs = (size.node.shape_env for size in _open_sizes(given))
    env: ShapeEnv | None = next((env for env in envs if env is not None), None)
    quiet: AbstractContextManager[Any] = nullcontext() if env is None else env.suppress_guards()
    with quiet:
        return call()


def _open_sizes(given: Any) -> Generator[torch.SymInt]:
    for tensor in pytree.tree_leaves(given):
        if isinstance(tensor, torch.Tensor):
            yield from (size for size in tensor.shape if isinstance(size, torch.SymInt))


def _linear(x: Any, *held: Any, **named: Any) -> bool:
    """Its weights, and what meets them, are of known sizes."""
    return not any(_open_sizes((held, named))) and isinstance(x.shape[-1], int)


def _einsum(equation: str, operands: Sequence[torch.Tensor], **_: Any) -> bool:
    """Sizes that have one letter are compared: they are equal, or one is 1 and goes with all."""
    letters = equation.replace(" ", "").partition("->")[0].split(",")
    if not set("".join(letters)) <= set(string.ascii_letters):  # an ellipsis stands for axes that have no letter
        return False
    if [len(term) for term in letters] != [operand.dim() for operand in operands]:
        return False
    sizes: dict[str, Any] = {}
    for term, operand in zip(letters, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            first = sizes.setdefault(letter, size)
            if _is_known_1(first) or (not _is_known_1(size) and not bool(size == first) and bool(first == 1)):
                sizes[letter] = size
    return True


def _matmul(left: torch.Tensor, right: torch.Tensor, **_: Any) -> bool:
    """Matrices, whose rows and columns meet, and of which the batches are compared as those of an equation."""
    if min(left.dim(), right.dim()) < 2 or not bool(left.shape[-1] == right.shape[-2]):
        return False
    batches = zip(reversed(left.shape[:-2]), reversed(right.shape[:-2]), strict=False)
    return all(_goes_with(*pair) for pair in batches)


def _goes_with(one: Any, other: Any) -> bool:
    """Whether the sizes are equal or either is 1, as PyTorch asks it."""
    return _is_known_1(one) or _is_known_1(other) or bool(one == other) or bool(one == 1) or bool(other == 1)


def _is_known_1(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _view(x: torch.Tensor, form: Sequence[Any], **_: Any) -> bool:
    """Of ``x`` with other axes of 1: of any layout, and never a copy."""
    old, new = ([size for size in sizes if not _is_known_1(size)] for sizes in (x.shape, form))
    return len(old) == len(new) and all(
        statically_known_true(one == other) for one, other in zip(old, new, strict=True)
    )


def _whatever(*_: Any, **__: Any) -> bool:
    return True


_NEW: dict[Any, Asked] = {
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
    aten.einsum.default: _einsum,
    aten.view.default: _view,
}
"""Operators whose results are new tensors in every layout, or in none."""
_SHARED: dict[Any, Asked] = {aten.contiguous.default: _whatever}
