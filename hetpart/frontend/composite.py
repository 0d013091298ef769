# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""PyTorch's composite operators, which it looks up anew for every namespace whenever it takes programs apart."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

from torch._export import utils


@contextmanager
def looked_up_once() -> Generator[None]:
    """Look them up at most once within, where nobody registers others."""
    known: Callable[[], None] = utils._materialize_cpp_cia_ops
    utils._materialize_cpp_cia_ops = cache(known)
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = known
