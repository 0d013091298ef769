"""Constants in half precision that the CPU has no kernels for: ONNX Runtime casts or computes them in every run.

One op's are cast when the session is made; what several read is cast anew, and what is computed of constants alone is
folded by kernels of the CPU, which it then has none of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.graph.ir import ValueRole
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, feeds_of

HALF, INT64 = TensorProto.FLOAT16, TensorProto.INT64
ROWS, IMAGE, TOKENS = (512, 1024), (1, 32, 96, 96), (1, 200)
WINDOW = {"pads": [1] * 4}
node = helper.make_node


def halves(*nodes: onnx.NodeProto, shape: Sizes = ROWS, **weights: Sizes) -> onnx.ModelProto:
    """From ``x`` to ``y``; ``x`` is of ids where it is one of tokens."""
    drawn = np.random.default_rng(0)
    initializers = [
        numpy_helper.from_array(drawn.uniform(0.1, 0.2, sizes).astype(np.float16), name)
        for name, sizes in weights.items()
    ]
    kind = INT64 if shape == TOKENS else HALF
    ends = helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("y", HALF, None)
    graph = helper.make_graph(list(nodes), "g", [ends[0]], [ends[1]], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


CAST_IN_EVERY_RUN = {
    "matrix of two products": halves(
        node("MatMul", ["x", "w"], ["a"]), node("Erf", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"]),
        w=(1024, 1024),
    ),
    "matrices of two layers that share them": halves(
        node("MatMul", ["x", "v"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "w"], ["c"]),
        node("MatMul", ["c", "v"], ["d"]), node("Erf", ["d"], ["e"]), node("MatMul", ["e", "w"], ["y"]),
        v=(1024, 1536), w=(1536, 1024),
    ),
    "filters of two convolutions": halves(
        node("Conv", ["x", "w"], ["a"], **WINDOW), node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w"], ["y"], **WINDOW), shape=IMAGE, w=(32, 32, 3, 3),
    ),
    "vector added twice": halves(
        node("Add", ["x", "w"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "w"], ["y"]), w=(1024,)
    ),
    "table looked up and multiplied": halves(
        node("Gather", ["w", "x"], ["a"]), node("Erf", ["a"], ["b"]), node("Mul", ["w", "v"], ["c"]),
        node("MatMul", ["b", "c"], ["y"]), shape=TOKENS, w=(300, 300), v=(300,),
    ),
}  # fmt: skip
COMPUTED_IN_EVERY_RUN = {
    "root of a matrix": halves(
        node("Sqrt", ["w"], ["v"]), node("MatMul", ["x", "v"], ["a"]), node("Erf", ["a"], ["y"]), w=(1024, 1024)
    ),
    "columns scaled": halves(
        node("Mul", ["w", "s"], ["v"]), node("MatMul", ["x", "v"], ["a"]), node("Erf", ["a"], ["y"]),
        w=(1024, 1024), s=(1024,),
    ),
    "root of a scalar": halves(
        node("Erf", ["x"], ["a"]), node("Sqrt", ["s"], ["r"]), node("Mul", ["a", "r"], ["b"]),
        node("Erf", ["b"], ["y"]), s=(),
    ),
    "of a chain": halves(
        node("Neg", ["w"], ["v"]), node("Exp", ["v"], ["u"]), node("MatMul", ["x", "u"], ["y"]), w=(1024, 1024)
    ),
}  # fmt: skip
MODELS = CAST_IN_EVERY_RUN | COMPUTED_IN_EVERY_RUN


@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_they_take_what_onnx_runtime_takes(name: str, thrifty: bool, tmp_path: Path) -> None:
    model = MODELS[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path, thrifty=thrifty))
    assert predicted_peak(model, thrifty=thrifty) == measured


@pytest.mark.parametrize("name", COMPUTED_IN_EVERY_RUN)
def test_what_is_computed_in_every_run_is_an_op(name: str, tmp_path: Path) -> None:
    model = COMPUTED_IN_EVERY_RUN[name]
    profiled = profiled_nodes(model, feeds_of(model), tmp_path)
    run = sorted({event["args"]["op_name"] for event in profiled} - {"Cast"})
    assert sorted({op.op_type for op in hetpart.load(model).ops}) == run


def test_what_has_a_kernel_in_half_precision_is_folded() -> None:
    model = halves(
        node("Transpose", ["w"], ["v"]), node("Unsqueeze", ["v", "axes"], ["u"]), node("MatMul", ["x", "u"], ["y"]),
        w=(1024, 1024),
    )  # fmt: skip
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "axes"))
    graph = hetpart.load(model)
    assert [op.op_type for op in graph.ops] == ["MatMul"]
    assert graph.value_named("u").role is ValueRole.DERIVED


@pytest.mark.parametrize("pins", [["node:root=cpu"], ["node:root=cuda", "node:product=cpu"], ["node:product=cuda"]])
def test_it_runs_wherever_it_is_placed(pins: list[str]) -> None:
    import onnxruntime

    model = halves(
        node("Sqrt", ["w"], ["v"], name="root"), node("MatMul", ["x", "v"], ["a"], name="product"),
        node("Softmax", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"]), w=(1024, 1024),
    )  # fmt: skip
    feeds: dict[str, Any] = feeds_of(model)
    whole = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    cut = hetpart.partition(model, hardware="emulated", pin=pins).session(emulate=True)
    np.testing.assert_allclose(
        np.asarray(cut.run(None, feeds)[0], np.float32), np.asarray(whole.run(None, feeds)[0], np.float32), rtol=2e-3
    )
