"""Half precision on the CPU: kernels and memory are those of ONNX Runtime, which casts where it has no kernel.

What is a function of other ops is put in their place before that, and convolutions are brought into blocks behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hetpart.cost_model.session.widened import half_body
from hetpart.graph.from_onnx import import_onnx
from hetpart.plan.cut_models import cut_models
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, feeds_of
from tests.cost_model.kernels_and_memory import REACH, assert_as_onnx_runtime
from tests.cost_model.kernels_run import partitioned, priced_types, run_types

ROWS, BATCHES, IMAGE = (512, 1024), (4, 256, 256), (1, 32, 64, 64)
WINDOW = {"kernel_shape": [3, 3], "pads": [1] * 4}


def halved(*nodes: onnx.NodeProto, shape: Sizes, opset: int = 22, made: Sizes | None = None, **weights: Any) -> Any:
    """``nodes`` from ``a`` to ``b`` in half precision, between ops that have no kernel for it."""
    whole = [helper.make_node("Erf", ["x"], ["a"]), *nodes, helper.make_node("Erf", ["b"], ["y"])]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT16, sizes)]
        for name, sizes in (("x", shape), ("y", made or shape))
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(whole, "g", *ends, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def alone(op_type: str, opset: int = 22, **options: Any) -> Any:
    return halved(helper.make_node(op_type, ["a"], ["b"], name="op", **options), shape=ROWS, opset=opset)


def convolving(*rest: onnx.NodeProto) -> Any:
    """A convolution into ``c`` and what is behind it."""
    filters = np.full((32, 32, 3, 3), 0.01, np.float16)
    return halved(helper.make_node("Conv", ["a", "w"], ["c"], **WINDOW), *rest, shape=IMAGE, w=filters)


CONVOLUTION = helper.make_node("Conv", ["a", "w"], ["c"], **WINDOW)
FUNCTIONS = {
    "Softmax": alone("Softmax"),
    "Softmax of another axis and opset": alone("Softmax", 17, axis=0),
    "LogSoftmax": alone("LogSoftmax"),
    "HardSwish": alone("HardSwish"),
    "LeakyRelu before CastLike changed": alone("LeakyRelu", 17),
}
WITH_SCALARS = {"Gelu": alone("Gelu"), "Gelu by tanh": alone("Gelu", approximate="tanh")}
"""Whose bodies compute constants, in every run of ONNX Runtime."""
NORMALIZED = (
    helper.make_node("Neg", ["a"], ["n"]),
    helper.make_node("Add", ["a", "n"], ["sum"]),
    helper.make_node("LayerNormalization", ["sum", "g", "h"], ["l"]),
)
VECTORS = {name: np.full(256, 0.5, np.float16) for name in "gh"}
SCALED = (
    helper.make_node("Mul", ["a", "half"], ["s"]), helper.make_node("MatMul", ["s", "a"], ["c"]),
    helper.make_node("Neg", ["c"], ["n"]),
)  # fmt: skip
HALF = np.array([0.5], np.float16)
TURN = {"perm": [0, 2, 1]}
FUSED_APART = {
    "Transpose behind a Reshape before a scaled product": halved(
        helper.make_node("Reshape", ["a", "sizes"], ["r"]), helper.make_node("Transpose", ["r"], ["t"], **TURN),
        helper.make_node("MatMul", ["r", "t"], ["p"]), helper.make_node("Mul", ["p", "half"], ["b"]),
        shape=BATCHES, made=(4, 128, 128), sizes=np.array((4, 128, 512)), half=HALF,
    ),
    "products scaled by one constant": halved(
        *SCALED, helper.make_node("Mul", ["n", "half"], ["t"]), helper.make_node("MatMul", ["t", "a"], ["b"]),
        shape=BATCHES, half=HALF,
    ),
    "normalized sum before a product and a bias": halved(
        *NORMALIZED, helper.make_node("MatMul", ["l", "w"], ["c"]), helper.make_node("Add", ["c", "i"], ["b"]),
        shape=BATCHES, w=np.ones((256, 256), np.float16), i=np.ones(256, np.float16), **VECTORS,
    ),
}  # fmt: skip
OTHERS = {
    "Transpose alone before a product": halved(
        helper.make_node("Transpose", ["a"], ["t"], **TURN), helper.make_node("MatMul", ["a", "t"], ["b"]),
        shape=BATCHES,
    ),
    "Concat of what is in float32 first": halved(
        helper.make_node("Transpose", ["a"], ["t"], **TURN), helper.make_node("Pad", ["t", "pads"], ["u"]),
        helper.make_node("Neg", ["a"], ["n"]), helper.make_node("Concat", ["n", "u"], ["c"], axis=0),
        helper.make_node("Neg", ["c"], ["b"]),
        shape=BATCHES, made=(9, 256, 256), pads=np.array([0, 0, 0, 1, 0, 0]),
    ),
    "cast to float32 and on": halved(
        helper.make_node("Sqrt", ["a"], ["q"]), helper.make_node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["f"], ["e"]), helper.make_node("Cast", ["e"], ["b"], to=TensorProto.FLOAT16),
        shape=ROWS,
    ),
    "cast to float32 and back": halved(
        helper.make_node("Sqrt", ["a"], ["s"]), helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["f"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Transpose", ["h"], ["b"], **TURN), shape=BATCHES,
    ),
    "scaled product": halved(
        *SCALED, helper.make_node("MatMul", ["n", "a"], ["b"]), shape=BATCHES, half=HALF,
    ),
    "normalized sum before a product": halved(
        *NORMALIZED, helper.make_node("MatMul", ["l", "w"], ["b"]), shape=BATCHES,
        w=np.ones((256, 256), np.float16), **VECTORS,
    ),
    "normalized sum before what has a kernel": halved(
        *NORMALIZED, helper.make_node("Transpose", ["l"], ["b"], perm=[0, 2, 1]), shape=BATCHES, **VECTORS,
    ),
    "LeakyRelu": alone("LeakyRelu"),
    "Relu": alone("Relu"),
    "Elu": alone("Elu"),
    "Conv, Relu": convolving(helper.make_node("Relu", ["c"], ["b"])),
    "Conv, HardSwish": convolving(helper.make_node("HardSwish", ["c"], ["b"])),
    "Conv, residual": convolving(helper.make_node("Relu", ["c"], ["d"]), helper.make_node("Add", ["d", "a"], ["b"])),
    "masked scores": halved(
        helper.make_node("Add", ["a", "mask"], ["s"]), helper.make_node("Softmax", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "a"], ["b"]), shape=BATCHES, mask=np.zeros((256, 256), np.float16),
    ),
    "LayerNormalization": halved(
        helper.make_node("LayerNormalization", ["a", "w"], ["b"]), shape=BATCHES, w=np.ones(256, np.float16)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS | OTHERS)
def test_half_precision_runs_and_takes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime((FUNCTIONS | OTHERS)[name], name, tmp_path)


def between_casts(*nodes: onnx.NodeProto) -> Any:
    """Images in float32 that are cast, go through ``nodes`` from ``a`` to ``b``, and are cast back."""
    casts = [helper.make_node("Cast", ["x"], ["a"], to=10), helper.make_node("Cast", ["b"], ["y"], to=1)]
    image = [helper.make_tensor_value_info(name, TensorProto.FLOAT, IMAGE) for name in "xy"]
    filters = numpy_helper.from_array(np.full((32, 32, 3, 3), 0.01, np.float16), "w")
    graph = helper.make_graph([casts[0], *nodes, casts[1]], "g", image[:1], image[1:], [filters])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


BETWEEN = {
    "a function": between_casts(helper.make_node("Softmax", ["a"], ["b"], axis=1)),
    "a function with scalars": between_casts(helper.make_node("Gelu", ["a"], ["b"])),
    "functions in a row": between_casts(
        helper.make_node("LogSoftmax", ["a"], ["c"]), helper.make_node("HardSwish", ["c"], ["b"])
    ),
    "a function behind an op": between_casts(
        helper.make_node("Exp", ["a"], ["c"]), helper.make_node("Softmax", ["c"], ["b"])
    ),
    "a function before an op": between_casts(
        helper.make_node("Softmax", ["a"], ["c"]), helper.make_node("Exp", ["c"], ["b"])
    ),
    "a function behind a convolution": between_casts(CONVOLUTION, helper.make_node("Softmax", ["c"], ["b"], axis=1)),
    "a convolution and an activation": between_casts(CONVOLUTION, helper.make_node("Relu", ["c"], ["b"])),
    "a convolution and a gate": between_casts(CONVOLUTION, helper.make_node("HardSwish", ["c"], ["b"])),
    "convolutions that are added": between_casts(
        CONVOLUTION, helper.make_node("Conv", ["c", "w"], ["d"], **WINDOW), helper.make_node("Add", ["c", "d"], ["b"])
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_stands_between_casts_reads_and_makes_float32(name: str, tmp_path: Path) -> None:
    """Casts that the model has cancel those that ONNX Runtime puts in, within functions too."""
    assert_as_onnx_runtime(BETWEEN[name], name, tmp_path)


@pytest.mark.parametrize("name", WITH_SCALARS)
def test_bodies_with_scalars_take_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = WITH_SCALARS[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


@pytest.mark.parametrize("name", FUNCTIONS | OTHERS)
def test_a_body_stands_for_what_is_a_function_of_this_opset(name: str) -> None:
    graph = import_onnx((FUNCTIONS | OTHERS)[name], {}).graph
    bodies = [op.op_type for op in graph.ops if half_body(op, graph) is not None]
    assert bool(bodies) == (name in FUNCTIONS or name in ("masked scores", "Conv, HardSwish"))


@pytest.mark.parametrize("name", FUSED_APART)
def test_what_casts_stand_between_is_not_fused(name: str, tmp_path: Path) -> None:
    """Casts of constants, and of what is flattened for a product of matrices, are not told."""
    model = partitioned(FUSED_APART[name])
    (own,) = cut_models(model.imported.proto, model.plan)
    run, priced = run_types(own, model.plan, tmp_path), priced_types(model.costs.graph)
    for types in (run, priced):
        types.pop("Cast")
    assert priced == run
