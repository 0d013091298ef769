# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
"""What the exporter knows is read once in a process, and no export changes what the next one knows."""

from __future__ import annotations

import pytest
import torch
from torch.onnx._internal.exporter import _registration
from torch.onnx._internal.exporter._registration import ONNXRegistry

import hetpart
from hetpart.frontend.registry import parsed_once


def test_sources_of_translations_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.nn.Linear(3, 2)
    hetpart.export(module, args=(torch.zeros(1, 3),))

    def parsed_again() -> None:
        pytest.fail("the exporter parsed its translations again")

    monkeypatch.setattr(_registration.onnxscript_apis, "get_torchlib_ops", parsed_again)
    hetpart.export(module, args=(torch.zeros(1, 3),))
    with pytest.raises(pytest.fail.Exception, match="parsed its translations again"):
        ONNXRegistry.from_torchlib()


def test_what_one_export_adds_is_not_in_the_next() -> None:
    target = torch.ops.aten.relu.default
    with parsed_once():
        before = len(ONNXRegistry.from_torchlib().get_decomps(target))
        changed = ONNXRegistry.from_torchlib()
        changed.register_op(target, lambda x: x)
        changed.functions.pop(torch.ops.aten.add.Tensor.name())
        after = ONNXRegistry.from_torchlib()
    assert len(changed.get_decomps(target)) > before == len(after.get_decomps(target))
    assert after.is_registered(torch.ops.aten.add.Tensor)


def test_pytorchs_own_is_back_behind_an_export() -> None:
    known = vars(ONNXRegistry)["from_torchlib"]
    with pytest.raises(ZeroDivisionError), parsed_once():
        _ = 1 // 0
    assert vars(ONNXRegistry)["from_torchlib"] is known
