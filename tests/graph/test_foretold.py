"""What hetpart foretells of every value is what ONNX Runtime makes, on ONNX's node tests and on the zoo."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnxruntime.capi import onnxruntime_pybind11_state as state

from benchmarks import zoo
from hetpart.graph.from_onnx import ImportedModel, import_onnx
from tests.graph.models import assert_foretold, every_value

REFUSALS = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented, state.RuntimeException)
"""What ONNX Runtime raises where it has no such operator or kernel."""
TINY = sorted(name for name in zoo.ZOO if name.endswith("-tiny"))


def undeclared(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` without the shapes of its outputs, so that they have to be found."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def sizes(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, int]:
    return {
        dim.dim_param or f"{value.name}.{axis}": np.shape(feeds[value.name])[axis]
        for value in model.graph.input
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value")
    }


def judged(case: TestCase) -> tuple[int, int]:
    """Values of the case that have a static type, and all; those of a run where ONNX Runtime has the operator."""
    inputs, outputs = case.data_sets[0]
    tensors = [value for value in case.model.graph.input if value.type.HasField("tensor_type")]
    model = undeclared(case.model) if len(tensors) == len(case.model.graph.input) else case.model
    given = (np.asarray(content) if isinstance(content, np.generic) else content for content in inputs)
    feeds = dict(zip((value.name for value in model.graph.input), given, strict=False))
    imported = import_onnx(model, sizes(model, feeds))
    found = dict(zip((value.name for value in model.graph.output), outputs, strict=True))
    assert_foretold(imported, found)
    if not any(isinstance(content, onnx.TensorProto) for content in inputs):  # types that NumPy lacks
        with suppress(*REFUSALS):
            assert_foretold(imported, every_value(imported, feeds))
    made = [value for value in imported.graph.values if value.producer is not None]
    return sum(value.is_static for value in made), len(made)


@pytest.fixture(scope="module")
def cases() -> list[TestCase]:
    with warnings.catch_warnings(action="ignore"):  # NumPy warns while the tests' data are made
        return collect_testcases(None)


def test_foretells_the_types_in_every_node_test(cases: list[TestCase]) -> None:
    counts = np.zeros(2, int)
    for case in cases:
        try:
            counts += judged(case)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from error
    static, made = counts
    assert made > 5000
    assert static / made > 0.9


@pytest.mark.parametrize("name", TINY)
def test_foretells_the_types_in_the_zoo(name: str, zoo_model: Callable[[str], Path]) -> None:
    path = zoo_model(name)
    imported = import_onnx(path, zoo.ZOO[name].shape)
    model = onnx.load(path)  # the references in the imported model are into files; here all is inline
    in_memory = import_onnx(model, zoo.ZOO[name].shape)
    found = every_value(in_memory, zoo.random_feeds(name, path))
    assert_foretold(imported, found)
    dynamic = {value.name for value in imported.graph.values if not value.is_static}
    routed = {value.name for value in imported.graph.values if value.shape and value.shape[0] is None}
    assert dynamic <= {"moe-tiny": routed | first_found(imported), "control-flow-tiny": {"history"}}.get(name, set())


def first_found(imported: ImportedModel) -> set[str]:
    """Results of ``NonZero``, whose columns only a run can tell."""
    graph = imported.graph
    return {graph.values[value].name for op in graph.ops if op.op_type == "NonZero" for value in op.results}
