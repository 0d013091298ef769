# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""PyTorch's exporter with its table of decompositions made once in a process, which takes it 0.1 s for every export.

Operators that somebody registers later are not in it, so it serves tests and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch.export import exported_program
from torch.onnx._internal.exporter import _decomp

Decomposition = Callable[..., Any]
Kernels = dict[Any, Decomposition]


@contextmanager
def made_once() -> Generator[None]:
    """Every export within takes programs apart by the one table, and overrides operators with the same kernels."""
    every: dict[Any, Any] = _decomp.create_onnx_friendly_decomposition_table(set())

    def untranslated(translated: set[Any]) -> dict[Any, Any]:
        return {target: parts for target, parts in every.items() if target not in translated}

    with (
        patch.object(_decomp, "create_onnx_friendly_decomposition_table", untranslated),
        patch.object(exported_program, "_override_composite_implicit_decomp", _Overriding()),
    ):
        yield


@dataclass(frozen=True, slots=True, eq=False)
class _Overridden:
    """What PyTorch put in the place of an operator's decomposition."""

    asked: Decomposition
    before: Kernels
    """What the operator had then."""
    within: Kernels
    fake: Decomposition | None
    """What runs it on tensors without content."""


class _Overriding:
    """PyTorch's override of all decompositions, which takes 0.09 s of every export: put back as it was made first."""

    def __init__(self) -> None:
        self._make = exported_program._override_composite_implicit_decomp
        self._made: dict[OpOverload, _Overridden] = {}

    @contextmanager
    def __call__(self, decompositions: Mapping[OpOverload, Decomposition]) -> Generator[None]:
        before = {op: dict(op.py_kernels) for op in decompositions}
        if not all(self._is_known(op, asked, before[op]) for op, asked in decompositions.items()):
            with self._make(decompositions):
                for op, asked in decompositions.items():
                    fake = fake_impls.op_implementations_dict.get(op)
                    self._made[op] = _Overridden(asked, before[op], dict(op.py_kernels), fake)
                yield
            return
        try:
            for op in decompositions:
                self._put(op, self._made[op])
            yield
        finally:
            for op, kernels in before.items():
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                fake_impls.op_implementations_dict.pop(op, None)  # as PyTorch does, whoever put it there

    def _is_known(self, op: OpOverload, asked: Decomposition, before: Kernels) -> bool:
        made = self._made.get(op)
        return made is not None and made.asked is asked and made.before == before

    def _put(self, op: OpOverload, made: _Overridden) -> None:
        op.py_kernels.clear()
        op.py_kernels.update(made.within)
        op._dispatch_cache.clear()
        if made.fake is not None:
            fake_impls.op_implementations_dict.setdefault(op, made.fake)
