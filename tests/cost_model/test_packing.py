"""What a product takes longer whose right side sessions cannot lay out once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.packing import packing_seconds
from hetpart.devices import Provider
from hetpart.graph.ir import Usage
from tests.cost_model.build import Builder

HOST = load_machine("l4+epyc", threads=1).host
MATRIX = 4 * 256 * 128
LAID_OUT = 2 * MATRIX / (HOST.bandwidth * HOST.bandwidth_efficiency)


@pytest.mark.parametrize("kind", ["constant", "given"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_constant_is_laid_out_once_and_all_else_in_every_run(kind: str, turned: bool) -> None:
    builder = Builder()
    left = builder.value((8, 256))
    shape = (128, 256) if turned else (256, 128)
    right = builder.weight(shape) if kind == "constant" else builder.value(shape)
    if turned:
        right = builder.op("Transpose", [right], (256, 128), perm=(1, 0))
    builder.op("MatMul", [left, right], (8, 128))
    graph = builder.graph()
    expected = 0.0 if kind == "constant" else LAID_OUT
    assert packing_seconds(graph.ops[-1], graph, HOST) == pytest.approx(expected)
    assert packing_seconds(graph.ops[-1], graph, replace(HOST, provider=Provider.CUDA)) == 0.0


@pytest.mark.parametrize("probability", [0.0, 0.25])
def test_what_a_run_does_without_is_not_laid_out(probability: float) -> None:
    builder = Builder()
    builder.op("MatMul", [builder.value((8, 256)), builder.value((256, 128))], (8, 128))
    graph = builder.graph()
    op = replace(graph.ops[-1], usage=Usage(probability=probability))
    assert packing_seconds(op, graph, HOST) == pytest.approx(probability * LAID_OUT)


def test_matrices_of_a_batch_are_measured_as_they_are() -> None:
    builder = Builder()
    builder.op("MatMul", [builder.value((2, 8, 256)), builder.value((2, 256, 128))], (2, 8, 128))
    graph = builder.graph()
    assert packing_seconds(graph.ops[-1], graph, HOST) == 0.0
