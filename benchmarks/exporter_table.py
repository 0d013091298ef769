# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""PyTorch's exporter with its table of operators made once in a process, which takes it a second for every export."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from torch.onnx._constants import ONNX_DEFAULT_OPSET
from torch.onnx._internal.exporter import _decomp
from torch.onnx._internal.exporter._registration import ONNXRegistry


@contextmanager
def made_once() -> Generator[None]:
    """Every export within has a copy of the one table, to which it adds what its caller translates."""
    known: Callable[..., ONNXRegistry] = cache(ONNXRegistry.from_torchlib)
    every: dict[Any, Any] = _decomp.create_onnx_friendly_decomposition_table(set())

    def copied(opset_version: int = ONNX_DEFAULT_OPSET) -> ONNXRegistry:
        made, table = ONNXRegistry(), known(opset_version)
        made._opset_version = table._opset_version
        made.functions = {target: list(translations) for target, translations in table.functions.items()}
        return made

    def untranslated(translated: set[Any]) -> dict[Any, Any]:
        return {target: parts for target, parts in every.items() if target not in translated}

    with (
        patch.object(ONNXRegistry, "from_torchlib", staticmethod(copied)),
        patch.object(_decomp, "create_onnx_friendly_decomposition_table", untranslated),
    ):
        yield
