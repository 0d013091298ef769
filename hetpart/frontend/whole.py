# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false
"""Operators that PyTorch's tracer takes apart before anybody is asked, in parts that are wrong."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch._C import DispatchKey

_WRONG = (
    # Labels behind the first -1 count.
    torch.ops.aten.multilabel_margin_loss_forward.default,
    # Margins of NaN are no number, where PyTorch's kernel has 0.
    torch.ops.aten.multi_margin_loss.default,
)


@contextmanager
def left_whole() -> Generator[None]:
    """Let them be what PyTorch's kernels are within, which have formulas for their gradients too."""
    before = {target: parts for target in _WRONG if (parts := target.py_kernels.pop(DispatchKey.Autograd, None))}
    _look_anew()
    try:
        yield
    finally:
        for target, parts in before.items():
            target.py_kernels[DispatchKey.Autograd] = parts
        _look_anew()


def _look_anew() -> None:
    """PyTorch remembers where calls went."""
    for target in _WRONG:
        target._dispatch_cache.clear()
