"""Ops that ONNX Runtime runs by their function body: kernels and memory are those of its profile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.kernels import ONNX_RUNTIME
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.reuse import Kernel
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, feeds_of, model_of
from tests.cost_model.this_processor import own_lane

REACH = 0.05
RUNS = 3
"""That are profiled."""
ROWS, WIDE = (512, 1024), (512, 1536)
IMAGE = (2, 32, 96, 96)
BESIDE = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "ReorderInput", "ReorderOutput")
"""Views, of which ONNX Runtime joins some that follow each other, and what kernels in blocks take besides."""


def between(op_type: str, inputs: dict[str, Sizes], outputs: dict[str, Sizes], opset: int, **more: Any) -> Any:
    """One op, what it reads and makes read and made by other ops. Arrays among ``more`` are weights."""
    weights = {name: array for name, array in more.items() if isinstance(array, np.ndarray)}
    options = {name: given for name, given in more.items() if name not in weights}
    nodes = [
        *(helper.make_node("Erf", [f"{name}_in"], [name], name=f"before {name}") for name in inputs),
        helper.make_node(op_type, [*inputs, *weights], [*outputs], name="op", **options),
        *(helper.make_node("Erf", [name], [f"{name}_out"], name=f"behind {name}") for name in outputs),
    ]
    ends = [
        [helper.make_tensor_value_info(f"{name}_{end}", TensorProto.FLOAT, shape) for name, shape in side.items()]
        for end, side in (("in", inputs), ("out", outputs))
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", *ends, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


CHANNELS = np.ones(IMAGE[1], np.float32)
CLASSES, WEIGHTS = np.zeros(ROWS[0], np.int64), np.ones(ROWS[1], np.float32)
ALIKE: dict[str, Any] = {
    "Bernoulli": between("Bernoulli", {"x": ROWS}, {"y": ROWS}, 15),
    "CastLike": between("CastLike", {"x": ROWS}, {"y": ROWS}, 22, like=np.ones(1, np.float32)),
    "CenterCropPad": between("CenterCropPad", {"x": ROWS}, {"y": (400, 1200)}, 18, size=np.array([400, 1200])),
    "GroupNormalization": between(
        "GroupNormalization", {"x": IMAGE}, {"y": IMAGE}, 21, scale=CHANNELS, bias=CHANNELS, num_groups=4
    ),
    "Mish": between("Mish", {"x": ROWS}, {"y": ROWS}, 22),
}
"""Of these every kernel is known, by its type."""
OTHERS: dict[str, Any] = {
    "NegativeLogLikelihoodLoss": between("NegativeLogLikelihoodLoss", {"x": ROWS}, {"y": ()}, 22, t=CLASSES),
    "NegativeLogLikelihoodLoss with weights": between(
        "NegativeLogLikelihoodLoss", {"x": ROWS}, {"y": ()}, 22, t=CLASSES, w=WEIGHTS
    ),
    "SoftmaxCrossEntropyLoss": between("SoftmaxCrossEntropyLoss", {"x": ROWS}, {"y": ()}, 22, t=CLASSES),
    "SoftmaxCrossEntropyLoss of images": between(
        "SoftmaxCrossEntropyLoss", {"x": IMAGE}, {"y": (), "p": IMAGE}, 22, t=np.zeros((2, 96, 96), np.int64)
    ),
    "Swish": between("Swish", {"x": ROWS}, {"y": ROWS}, 24),
    "Swish with alpha": between("Swish", {"x": ROWS}, {"y": ROWS}, 24, alpha=1.7),
}


def convolving(image: Sizes, *, residual: bool) -> Any:
    """Convolutions with a HardSwish behind each, the second of which may add what goes into the first HardSwish."""
    rank = len(image) - 2
    options = {"kernel_shape": [3] * rank, "pads": [1] * 2 * rank}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="c0", **options),
        helper.make_node("HardSwish", ["a"], ["b"], name="h0"),
        helper.make_node("Conv", ["b", "w"], ["c"], name="c1", **options),
        *([helper.make_node("Add", ["c", "a"], ["sum"], name="sum")] if residual else []),
        helper.make_node("HardSwish", ["sum" if residual else "c"], ["d"], name="h1"),
        helper.make_node("Conv", ["d", "w"], ["y"], name="c2", **options),
    ]
    weight = np.ones((image[1], image[1], *[3] * rank), np.float32)
    return model_of(nodes, {"x": image}, {"y": image}, {"w": weight}, 22)


HAS_KERNELS: dict[str, Any] = {
    "Attention of an opset that ONNX Runtime has no schema of": between(
        "Attention", dict.fromkeys("qkv", (2, 4, 256, 64)), {"y": (2, 4, 256, 64)}, 25, is_causal=1
    ),
    "HardSwish": between("HardSwish", {"x": ROWS}, {"y": ROWS}, 22),
    **{
        f"HardSwish behind convolutions of {len(image)} dimensions{', residual' if residual else ''}": convolving(
            image, residual=residual
        )
        for image in ((1, 16, 4096), (1, 24, 64, 64), (1, 16, 16, 16, 16))
        for residual in (False, True)
    },
}
"""CUDA has one of HardSwish, and the CPU none: it runs two kernels, or leaves it to a convolution."""
MODELS = ALIKE | OTHERS | HAS_KERNELS


def in_place(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the bodies where hetpart puts them, which is what a plan runs."""
    return import_onnx(model, {}, ONNX_RUNTIME).proto


@pytest.mark.parametrize("name", MODELS)
def test_bodies_stand_where_no_provider_has_a_kernel(name: str) -> None:
    from_bodies = [op.origin for op in hetpart.load(MODELS[name]).ops if op.op_type != "Erf"]
    assert all(from_bodies) == (name not in HAS_KERNELS)


@pytest.mark.parametrize("name", MODELS)
def test_the_memory_of_a_body_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    measured = measured_peak(profiled_nodes(in_place(model), feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


@pytest.mark.parametrize("name", ALIKE | HAS_KERNELS)
def test_the_kernels_of_a_body_are_those_that_onnx_runtime_runs(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    graph = hetpart.load(model)
    lane, ends = own_lane(), frozenset(graph.outputs)
    kernels = session_kernels(graph, range(len(graph.ops)), find_fusions(graph), lane, ends)
    events = profiled_nodes(in_place(model), feeds_of(model), tmp_path)
    theirs = Counter(event["args"]["op_name"] for event in events)
    ours = Counter(kernel.op_type or called(kernel, graph) for kernel in kernels if kernel.ops)
    for beside in BESIDE:
        ours.pop(beside, None)
        theirs.pop(beside, None)
    assert {op_type: RUNS * count for op_type, count in ours.items()} == theirs


def called(kernel: Kernel, graph: Graph) -> str:
    """The type of a kernel's node: a convolution takes what is behind it over."""
    members = [graph.ops[op].op_type for op in kernel.ops]
    return "Conv" if "Conv" in members else members[-1]


def test_an_op_that_becomes_two_is_priced_as_both() -> None:
    whole = between("HardSwish", {"x": ROWS}, {"y": ROWS}, 22)
    nodes = [
        helper.make_node("HardSigmoid", ["x"], ["gate"], name="gate", alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", ["x", "gate"], ["y"], name="product"),
    ]
    parts = hetpart.annotate(model_of(nodes, {"x": ROWS}, {"y": ROWS}, {}, 22), hardware="l4+epyc")
    costs = hetpart.annotate(whole, hardware="l4+epyc")
    (op,) = (op for op in costs.graph.ops if op.op_type == "HardSwish")
    cpu, cuda = costs.ops[op.id].seconds
    assert cpu == pytest.approx(sum(cost.seconds[0] for cost in parts.ops), rel=0.01)
    assert cuda < 0.6 * sum(cost.seconds[1] for cost in parts.ops)
