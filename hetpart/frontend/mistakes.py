# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Why ``torch.export`` refuses a call that is no call of the module: what can be told without its code."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import BoundArguments, Parameter, signature
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError

if TYPE_CHECKING:
    from hetpart.frontend.example import Example

FAKE_HINT = (
    "say what form its results have, where it is registered: @torch.library.register_fake('namespace::operator')"
)
GRADIENTS_HINT = (
    "gradients are taken without torch.cond inside and without a buffer that is changed;"
    " torch.compile(model, backend='hetpart') takes gradients of such code too"
)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def require_unscripted(module: torch.nn.Module, whole: torch.nn.Module, path: str = "") -> None:
    """Refuse what ``torch.jit`` made of ``module``, which is ``path`` in ``whole``: its code is Python's no more.

    Raises:
        InvalidModelError: it is that.
    """
    if isinstance(module, torch.jit.ScriptModule):
        what = f"its part {path!r}" if path else "it"
        raise InvalidModelError(
            f"torch.export refuses {type(whole).__name__}: {what} is what torch.jit made, and no code of Python's",
            hint=f"give {path or 'the module'} as it was before torch.jit",
        )


def hint_of_call(module: torch.nn.Module, example: Example) -> str:
    """What to change in the example call, or in the kind of module; ``""`` where nothing is wrong with them."""
    if any(isinstance(leaf, np.ndarray | np.generic) for leaf in pytree.tree_leaves((example.args, example.kwargs))):
        return "give tensors in the place of NumPy's arrays: torch.from_numpy(array)"
    takes = signature(module.forward)
    try:
        bound = takes.bind(*example.args, **example.kwargs)
    except TypeError:
        return f"give in args= and kwargs= what the module takes: {', '.join(takes.parameters)}"
    return _hint_of_shapes(bound, example)


def _hint_of_shapes(bound: BoundArguments, example: Example) -> str:
    shapes, taken = example.dynamic_shapes, bound.signature.parameters
    variadic = any(taken[name].kind in _VARIADIC for name in bound.arguments)
    if variadic or not isinstance(shapes, Mapping) or set(shapes) == set(bound.arguments):
        return ""
    names = ", ".join(map(repr, bound.arguments))
    return f"dynamic_shapes names every argument of the call, {names}: None for one whose sizes stay"
