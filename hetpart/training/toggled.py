# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Parameters that a loss freezes, or lets go, while it is computed: a trace follows neither."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from hetpart.errors import InvalidModelError

_FLAG: Any = torch.Tensor.requires_grad


@contextmanager
def require_untoggled(model: nn.Module) -> Generator[None]:
    """See that no ``requires_grad`` of the parameters of ``model`` changes within.

    Raises:
        InvalidModelError: one does.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}

    def require(tensor: Any, wanted: bool) -> None:
        if id(tensor) in names and wanted != tensor.requires_grad:
            raise InvalidModelError(
                f"the loss sets requires_grad of {names[id(tensor)]!r} to {wanted} while it is computed, "
                "and a step is traced once, with parameters as they were",
                hint="freeze it before compile, or use it frozen where it is to be: "
                "torch.func.functional_call(module, {name: p.detach() for name, p in module.named_parameters()}, (x,))",
            )

    # A mode sees calls; what is assigned only the class of the tensors in a trace does.
    plain: Any = FakeTensor
    plain.requires_grad = property(_FLAG.__get__, lambda tensor, wanted: _set(tensor, wanted, require))
    try:
        with _Calls(require):
            yield
    finally:
        del plain.requires_grad


def _set(tensor: Any, wanted: bool, require: Any) -> None:
    require(tensor, wanted)
    _FLAG.__set__(tensor, wanted)


class _Calls(TorchFunctionMode):
    def __init__(self, require: Any) -> None:
        super().__init__()
        self._require = require

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.requires_grad_:
            self._require(args[0], (*args, *(kwargs or {}).values(), True)[1])
        return func(*args, **(kwargs or {}))
