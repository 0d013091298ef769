# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Gradients that a trace would get wrong in silence: backward passes and hooks of the user's own are Python's alone.

``torch.export`` records what a ``torch.autograd.Function`` computes forward, and hooks nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from hetpart.errors import InvalidModelError, InvalidOptionError

_ORDINARY = "write it in PyTorch's operators, whose gradients are known"
_OF_OPERATORS = "GeneratedBackwardFor_"
"""What PyTorch calls the formulas of operators, which a trace follows: ``torch.library.register_autograd``."""
_HINTS = {
    "CheckpointFunction": "call torch.utils.checkpoint.checkpoint with use_reentrant=False",
    "BackwardHookFunction": "take the backward hooks off the modules: a step calls none",
}


class NoHooks(TorchFunctionMode):
    """Within it, a tensor that is given a hook on its gradient is refused."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.register_hook:
            raise InvalidModelError(
                "loss_fn puts a hook on the gradient of a tensor, which a step would not call",
                hint="let the loss say it: x + (weight - 1) * (x - x.detach()) multiplies a gradient by weight",
            )
        return func(*args, **(kwargs or {}))


def require_trainable(model: Any, loss_fn: Any) -> None:
    """See that a step is made of a module and a function.

    Raises:
        InvalidOptionError: it is not.
    """
    if not isinstance(model, torch.nn.Module):
        raise InvalidOptionError(
            f"model cannot be a {type(model).__name__}",
            hint="it is a torch.nn.Module: a function goes into one that holds its parameters",
        )
    if not callable(loss_fn):
        raise InvalidOptionError(
            f"loss_fn cannot be {loss_fn!r}", hint="it is a function: loss_fn(model, *batch) returns one number"
        )


def require_real(parameters: Mapping[str, torch.Tensor]) -> None:
    """No parameter that is trained is of complex numbers, which no operator of ONNX takes.

    Raises:
        InvalidModelError: one is.
    """
    for name, parameter in parameters.items():
        if parameter.is_complex():
            raise InvalidModelError(
                f"the parameter {name!r} is of {str(parameter.dtype).removeprefix('torch.')}, and a step trains real "
                "numbers",
                hint="keep torch.view_as_real(parameter), and let forward() read it by torch.view_as_complex",
            )


def require_no_hooks(model: torch.nn.Module) -> None:
    """No parameter has a hook that is told of its gradient, or changes it.

    Raises:
        InvalidModelError: one has.
    """
    for name, parameter in model.named_parameters():
        hooked: Any = parameter
        if hooked._backward_hooks or hooked._post_accumulate_grad_hooks:
            raise InvalidModelError(
                f"the parameter {name!r} has a hook on its gradient, which a step would not call",
                hint="take the hook off; what it does to the gradient belongs into loss_fn or the optimizer",
            )


def require_followed(loss: Any) -> None:
    """``loss`` is alone, and its gradient is that of the operators it was made by.

    Raises:
        InvalidModelError: there is more than it, or a part of it has a backward pass of its own.
    """
    if isinstance(loss, tuple | list | Mapping):
        several = cast("Sequence[Any]", loss)
        raise InvalidModelError(
            f"loss_fn returns a {type(loss).__name__} of {len(several)}",
            hint="it returns the loss alone: compute what else is wanted in an evaluation, or keep it in a buffer",
        )
    for function in _functions(getattr(loss, "grad_fn", None)):
        name = type(function).__name__.removesuffix("Backward")
        if isinstance(function, BackwardCFunction) and not name.startswith(_OF_OPERATORS):
            raise InvalidModelError(
                f"{name} has a backward pass of its own, which torch.export does not follow",
                hint=_HINTS.get(name, _ORDINARY),
            )


def _functions(last: Any) -> Iterator[Any]:
    """All that autograd recorded before ``last``, and it."""
    waiting, known = [last], set[Any]()
    while waiting:
        function = waiting.pop()
        if function is not None and function not in known:
            known.add(function)
            waiting += [before for before, _ in function.next_functions]
            yield function


def require_flat(batch: Any) -> None:
    """See that a batch is parts side by side, none of which holds others, and that tensors lie as they are indexed.

    Raises:
        InvalidOptionError: it is not.
    """
    if not isinstance(batch, list | tuple):
        raise InvalidOptionError(
            f"example_batch cannot be a {type(batch).__name__}", hint="it is a tuple of parts: example_batch=(x, y)"
        )
    if not batch:
        raise InvalidOptionError("example_batch has no part", hint="it is what a step is called with: (x, y)")
    for place, part in enumerate(cast("Sequence[Any]", batch)):
        if isinstance(part, np.ndarray):
            raise InvalidOptionError(
                f"part {place} of example_batch is an array of NumPy's",
                hint="give torch.from_numpy(part); what a step is called with then may be arrays",
            )
        if isinstance(part, torch.Tensor) and part.layout is not torch.strided:
            layout = str(part.layout).removeprefix("torch.")
            raise InvalidOptionError(
                f"part {place} of example_batch is a tensor of the layout {layout}", hint="give it dense: to_dense()"
            )
        if isinstance(part, Mapping | list | tuple | set):
            raise InvalidOptionError(
                f"part {place} of example_batch is a {type(part).__name__}, and a batch is tensors and numbers",
                hint="give what it holds as parts of their own: loss_fn(model, *batch) takes as many",
            )
