"""Models as text, and what ONNX Runtime makes of them before and after hetpart has read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, parser

from hetpart.graph.from_onnx import ImportedModel, import_onnx

_ERRORS_ONLY = 4


def from_text(text: str) -> onnx.ModelProto:
    """A model from ONNX's text form; what it declares and no node makes is a weight, drawn at random."""
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    for value in model.graph.value_info:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        made = (rng.standard_normal(shape) * 9).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(made, value.name))
    del model.graph.value_info[:]
    return model


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Results by name of ``model`` in ONNX Runtime on the CPU, its optimisations off."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    names = [value.name for value in model.graph.output]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def every_value(imported: ImportedModel, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Results of the model as it was read, and of every op in it."""
    model = onnx.ModelProto()
    model.CopyFrom(imported.proto)
    returned = {value.name for value in model.graph.output}
    inner = [name for node in model.graph.node for name in node.output if name and name not in returned]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
    del model.graph.value_info[:]
    if not model.graph.output:  # all that is returned is fed
        return {}
    return run(model, {value.name: feeds[value.name] for value in model.graph.input})


def assert_read_as_it_is(
    model: onnx.ModelProto, feeds: Mapping[str, Any], dimensions: Mapping[str, int] | None = None
) -> ImportedModel:
    """Reading ``model`` changes no result, and what is foretold of values is what they are."""
    expected = run(model, feeds)
    imported = import_onnx(model, dimensions)
    found = every_value(imported, feeds)
    for name in imported.returned:
        same(feeds[name] if name in imported.passthrough else found[name], expected[name])
    assert_foretold(imported, found)
    return imported


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


def assert_foretold(imported: ImportedModel, values: Mapping[str, Any]) -> None:
    """Types that hetpart gave to values are those that a run gave them."""
    for value in imported.graph.values:
        found = values.get(value.name)
        if isinstance(found, np.ndarray) and value.shape is not None:
            assert len(value.shape) == found.ndim, value
            assert all(size in (None, real) for size, real in zip(value.shape, found.shape, strict=True)), value
        if isinstance(found, np.ndarray) and value.is_static and value.dtype in _PLAIN:
            assert found.dtype.name == value.dtype, value
            assert found.nbytes == value.nbytes, value


_PLAIN = frozenset(
    {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"}
)
