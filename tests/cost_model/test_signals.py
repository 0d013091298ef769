"""What a Fourier transform pads is what ONNX Runtime's arena says; its flops are those of a fast one by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from hetpart.cost_model.formulas import work_of
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.build import Builder
from tests.cost_model.float_models import Sizes, Weights, feeds_of
from tests.cost_model.test_scratch import REACH, between


def transformed(given: Sizes, made: Sizes, *, length: int = 0, **options: int) -> Any:
    """Along the middle axis."""
    weights: Weights = {"axis": np.array(1)} | ({"length": np.array(length)} if length else {})
    node = helper.make_node("DFT", ["a", "length" if length else "", "axis"], ["out"], **options)
    return between(node, {"a": given}, made, weights, 20)


def of_old_opset() -> Any:
    node = helper.make_node("DFT", ["a"], ["out"], axis=1)
    return between(node, {"a": (4, 1000, 1)}, (4, 1000, 2), {}, 17)


CASES = {
    "power of two": transformed((4, 1024, 2), (4, 1024, 2)),
    "any length": transformed((1, 4100, 2), (1, 4100, 2)),
    "of real numbers": transformed((8, 1000, 1), (8, 1000, 2)),
    "one side": transformed((4, 1000, 1), (4, 501, 2), onesided=1),
    "back": transformed((4, 1000, 2), (4, 1000, 2), inverse=1),
    "back to real numbers": transformed((4, 501, 2), (4, 1000, 1), inverse=1, onesided=1),
    "cut to a length": transformed((4, 1024, 1), (4, 600, 2), length=600),
    "of an old opset": of_old_opset(),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_fourier_transform_takes_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


FLOPS: dict[str, tuple[int, Sizes, Sizes, int | None, int | None, dict[str, int], float]] = {
    "the shorter axis": (20, (1, 16, 1000, 2), (1, 16, 1000, 2), 1, None, {}, 1000 * 16 * 4),
    "the shorter of an old opset": (17, (1, 16, 1000, 2), (1, 16, 1000, 2), None, None, {"axis": 1}, 1000 * 16 * 4),
    "the default of an old opset": (17, (3, 16, 1000, 2), (3, 16, 1000, 2), None, None, {}, 3 * 1000 * 16 * 4),
    "the last axis": (20, (1, 16, 1024, 1), (1, 16, 1024, 2), None, None, {}, 16 * 1024 * 10),
    "one side": (20, (1, 16, 1024, 1), (1, 16, 513, 2), None, None, {"onesided": 1}, 16 * 1024 * 10 / 2),
    "back from one side": (
        20, (1, 16, 513, 2), (1, 16, 1024, 1), None, None, {"onesided": 1, "inverse": 1}, 16 * 1024 * 10 / 2
    ),
    "padded to a length": (20, (4, 600, 1), (4, 1024, 2), 1, 1024, {}, 4 * 1024 * 10),
}  # fmt: skip
"""Opset, shapes, axis and length by constants, attributes, and elements times levels."""


@pytest.mark.parametrize("name", FLOPS)
def test_flops_of_a_fourier_transform_are_those_along_its_axis(name: str) -> None:
    opset, given, made, axis, length, options, levels = FLOPS[name]
    b = Builder()
    operands: list[int | None] = [b.value(given), None, None]
    for position, told in ((1, length), (2, axis)):
        if told is not None:
            operands[position] = b.weight((), "int64")
            b.values[-1] = replace(b.values[-1], content=(told,))
    b.op("DFT", operands, made, version=opset, **options)
    work = work_of(b.ops[0], b.graph())
    assert work is not None
    assert work.flops == pytest.approx(5 * levels)


@pytest.mark.parametrize("one_sided", [0, 1])
def test_a_short_time_transform_counts_as_one_of_each_frame(one_sided: int) -> None:
    made = 201 if one_sided else 400
    b = Builder()
    b.op("STFT", [b.value((1, 16000, 1)), b.weight((), "int64")], (1, 97, made, 2), version=17, onesided=one_sided)
    b.op("DFT", [b.value((97, 400, 1))], (97, made, 2), onesided=one_sided)
    framed, whole = (work_of(op, b.graph()) for op in b.ops)
    assert framed is not None
    assert whole is not None
    assert framed.flops == pytest.approx(whole.flops)
