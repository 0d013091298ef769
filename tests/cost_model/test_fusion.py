"""Fusion groups: against what ONNX Runtime's optimiser leaves of a model, and their legality."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from hetpart.cost_model.epilogues import EPILOGUES, EVERYWHERE, ON_CPU
from hetpart.cost_model.fusion import find_fusions, fusion_groups
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph
from tests.cost_model.build import Builder

OPSET = 20
Nodes = list[tuple[str, list[str], list[str], dict[str, object]]]


def _model(nodes: Nodes, inputs: dict[str, tuple[int, ...]], weights: dict[str, np.ndarray], outputs: list[str]):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    made = [helper.make_node(kind, ins, outs, name=outs[0], **options) for kind, ins, outs, options in nodes]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(made, "g", values, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _ones(*shape: int) -> np.ndarray:
    return np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def _kernels_after_optimisation(model: onnx.ModelProto, folder: Path) -> int:
    """Nodes ONNX Runtime's CPU provider runs of the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return len(onnx.load(folder / "optimised.onnx").graph.node)


MATRIX = {"x": (4, 8)}
LINEAR: Nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "b"], ["y"], {})]
ERF_GELU: Nodes = [
    ("Div", ["x", "root2"], ["d"], {}),
    ("Erf", ["d"], ["e"], {}),
    ("Add", ["e", "one"], ["a"], {}),
    ("Mul", ["x", "a"], ["p"], {}),
    ("Mul", ["p", "half"], ["y"], {}),
]
ERF_GELU_HALF_FIRST: Nodes = [
    ("Div", ["x", "root2"], ["d"], {}),
    ("Erf", ["d"], ["e"], {}),
    ("Add", ["e", "one"], ["a"], {}),
    ("Mul", ["x", "half"], ["h"], {}),
    ("Mul", ["h", "a"], ["y"], {}),
]
LAYER_NORM: Nodes = [
    ("ReduceMean", ["x", "axes"], ["mean"], {}),
    ("Sub", ["x", "mean"], ["c"], {}),
    ("Pow", ["c", "two"], ["q"], {}),
    ("ReduceMean", ["q", "axes"], ["var"], {}),
    ("Add", ["var", "eps"], ["shifted"], {}),
    ("Sqrt", ["shifted"], ["dev"], {}),
    ("Div", ["c", "dev"], ["n"], {}),
    ("Mul", ["n", "gamma"], ["s"], {}),
    ("Add", ["s", "beta"], ["y"], {}),
]
SCALARS = {"root2": _scalar(2**0.5), "one": _scalar(1), "half": _scalar(0.5), "two": _scalar(2), "eps": _scalar(1e-5)}
SHIFTS = {"gamma": _ones(8), "beta": _ones(8)}
AFFINE = {**SHIFTS, "axes": np.array([-1])}
IMAGE = {"x": (1, 3, 8, 8)}
FILTER = {"k": _ones(4, 3, 3, 3)}
NORM = {name: _ones(4) for name in ("scale", "shift", "mean", "var")}
WEIGHTS = {"w": _ones(8, 6), "b": _ones(6)}
QUANTIZED: Nodes = [
    ("QuantizeLinear", ["x", "s", "z"], ["xq"], {}),
    ("DequantizeLinear", ["xq", "s", "z"], ["xd"], {}),
    ("DequantizeLinear", ["wq", "s", "z"], ["wd"], {}),
    ("MatMul", ["xd", "wd"], ["m"], {}),
    ("QuantizeLinear", ["m", "s", "z"], ["mq"], {}),
    ("DequantizeLinear", ["mq", "s", "z"], ["y"], {}),
]
QUANTA = {"s": _scalar(0.02), "z": np.array(3, np.uint8), "wq": np.full((8, 6), 9, np.uint8)}


def _of_integers(made: str, scale: str = "s", weight: str = "wi") -> Nodes:
    """A product as dynamic quantization writes it, behind its quantizer."""
    return [
        ("MatMulInteger", ["q", weight, "qz", "wz"], [f"{made}i"], {}),
        ("Cast", [f"{made}i"], [f"{made}f"], {"to": TensorProto.FLOAT}),
        ("Mul", ["qs", scale], [f"{made}s"], {}),
        ("Mul", [f"{made}f", f"{made}s"], [made], {}),
    ]


QUANTIZER: Nodes = [("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"], {})]
INTEGERS = {"wi": np.full((8, 6), 9, np.int8), "wz": np.array(0, np.int8), "s": _scalar(0.02), "b": _ones(6)}

CASES = {
    "product of integers": ([*QUANTIZER, *_of_integers("y")], MATRIX, INTEGERS),
    "product of integers with bias": (
        [*QUANTIZER, *_of_integers("m"), ("Add", ["m", "b"], ["y"], {})], MATRIX, INTEGERS
    ),
    "two products of integers": (
        [
            *QUANTIZER, *_of_integers("m"), ("Relu", ["m"], ["r"], {}), *_of_integers("n", "s2", "w2"),
            ("Sub", ["r", "n"], ["y"], {}),
        ],
        MATRIX,
        INTEGERS | {"s2": _scalar(0.03), "w2": np.full((8, 6), 7, np.int8)},
    ),
    "linear": (LINEAR, MATRIX, WEIGHTS),
    "linear and relu": ([*LINEAR, ("Relu", ["y"], ["r"], {})], MATRIX, WEIGHTS),
    "gemm and tanh": (
        [("Gemm", ["x", "w", "b"], ["y"], {}), ("Tanh", ["y"], ["r"], {})],
        MATRIX,
        WEIGHTS,
    ),
    "convolution and relu": (
        [("Conv", ["x", "k"], ["c"], {}), ("Relu", ["c"], ["y"], {})],
        IMAGE,
        FILTER,
    ),
    "convolution, normalization and relu": (
        [
            ("Conv", ["x", "k"], ["c"], {}),
            ("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], {}),
            ("Relu", ["n"], ["y"], {}),
        ],
        IMAGE,
        FILTER | NORM,
    ),
    "erf gelu": (ERF_GELU, MATRIX, SCALARS),
    "erf gelu, half first": (ERF_GELU_HALF_FIRST, MATRIX, SCALARS),
    "layer normalization": (LAYER_NORM, MATRIX, SCALARS | AFFINE),
    "sum and layer normalization": (
        [("Add", ["x", "x2"], ["t"], {}), ("LayerNormalization", ["t", "gamma", "beta"], ["y"], {})],
        {"x": (1, 4, 8), "x2": (1, 4, 8)},
        SHIFTS,
    ),
    "sum and decomposed layer normalization": (
        [("Add", ["u", "v"], ["x"], {}), *LAYER_NORM],
        {"u": (1, 4, 8), "v": (1, 4, 8)},
        SCALARS | AFFINE,
    ),
    "bias and erf gelu": (
        [("Add", ["u", "shift"], ["x"], {}), *ERF_GELU],
        {"u": (4, 8)},
        SCALARS | {"shift": _ones(8)},
    ),
    "bias and gelu": (
        [("Add", ["u", "shift"], ["x"], {}), ("Gelu", ["x"], ["y"], {})],
        {"u": (4, 8)},
        {"shift": _ones(8)},
    ),
    "linear and a matrix": (
        [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "o"], ["y"], {})],
        {"x": (4, 8), "o": (4, 6)},
        WEIGHTS,
    ),
    "linear, a matrix and relu": (
        [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["o", "m"], ["t"], {}), ("Relu", ["t"], ["y"], {})],
        {"x": (4, 8), "o": (4, 6)},
        WEIGHTS,
    ),
    "swish": ([("Sigmoid", ["x"], ["s"], {}), ("Mul", ["x", "s"], ["y"], {})], MATRIX, {}),
    "quantized product": (QUANTIZED, MATRIX, QUANTA),
}  # fmt: skip


def _names(graph: Graph, groups: tuple[int, ...]) -> set[frozenset[str]]:
    return {frozenset(op.name for op in graph.ops if groups[op.id] == group) for group in groups}


@pytest.mark.parametrize("name", CASES)
def test_a_group_is_what_onnx_runtime_runs_as_one_kernel(name, tmp_path):
    nodes, inputs, weights = CASES[name]
    used = {key: array for key, array in weights.items() if any(key in ins for _, ins, _, _ in nodes)}
    model = _model(nodes, inputs, used, [nodes[-1][2][0]])
    kernels = _kernels_after_optimisation(model, tmp_path)
    graph = import_onnx(model).graph
    assert len(set(fusion_groups(graph))) == kernels
    assert len(graph.ops) > kernels


NOT_FUSED = {
    "a sum of two batches is no bias": (
        [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "o"], ["y"], {})],
        {"x": (2, 4, 8), "o": (2, 4, 6)},
        {"w": _ones(8, 6)},
        ["y"],
    ),
    "a scalar is no bias": (
        [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "one"], ["y"], {})],
        MATRIX,
        {"w": _ones(8, 6), "one": _scalar(1)},
        ["y"],
    ),
    "a bias of products that are not of one matrix": (
        [("MatMul", ["x", "o"], ["m"], {}), ("Add", ["m", "b"], ["y"], {})],
        {"x": (2, 4, 8), "o": (2, 8, 6)},
        {"b": _ones(6)},
        ["y"],
    ),
    "a sum of rows that is normalized": (
        [("Add", ["x", "o"], ["t"], {}), ("LayerNormalization", ["t", "gamma", "beta"], ["y"], {})],
        {"x": (4, 8), "o": (4, 8)},
        SHIFTS,
        ["y"],
    ),
    "a sum of a batch and one of it that is normalized": (
        [("Add", ["x", "o"], ["t"], {}), ("LayerNormalization", ["t", "gamma", "beta"], ["y"], {})],
        {"x": (2, 4, 8), "o": (1, 4, 8)},
        SHIFTS,
        ["y"],
    ),
    "a value that is used twice": (
        [("Conv", ["x", "k"], ["c"], {}), ("Relu", ["c"], ["y"], {}), ("Exp", ["c"], ["z"], {})],
        IMAGE,
        FILTER,
        ["y", "z"],
    ),
    "a value the caller wants": (
        [("Conv", ["x", "k"], ["c"], {}), ("Relu", ["c"], ["y"], {})],
        IMAGE,
        FILTER,
        ["c", "y"],
    ),
    "an erf that is no gelu": (
        [("Div", ["x", "root2"], ["d"], {}), ("Erf", ["d"], ["e"], {}), ("Add", ["e", "one"], ["a"], {}),
         ("Mul", ["o", "a"], ["p"], {}), ("Mul", ["p", "half"], ["y"], {})],
        {"x": (4, 8), "o": (4, 8)},
        {key: SCALARS[key] for key in ("root2", "one", "half")},
        ["y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_FUSED)
def test_what_stays_apart(name, tmp_path):
    nodes, inputs, weights, outputs = NOT_FUSED[name]
    model = _model(nodes, inputs, weights, outputs)
    assert _kernels_after_optimisation(model, tmp_path) == len(nodes)
    assert fusion_groups(import_onnx(model).graph) == tuple(range(len(nodes)))


def test_quantized_ops_are_fused_on_the_cpu_alone():
    graph = import_onnx(_model(QUANTIZED, MATRIX, QUANTA, ["y"])).graph
    fusions = find_fusions(graph)
    product = next(op for op in graph.ops if op.op_type == "MatMul")
    assert fusions.absorbed[product.id] == ON_CPU


def test_the_last_op_of_a_group_writes_its_result():
    graph = import_onnx(_model(LAYER_NORM, MATRIX, SCALARS | AFFINE, ["y"])).graph
    absorbed = find_fusions(graph).absorbed
    assert absorbed[-1] == frozenset()
    assert set(absorbed[:-1]) == {EVERYWHERE}


def _random_graph(seed: int) -> Graph:
    """Ops that might fuse, wired at random."""
    random = np.random.default_rng(seed)
    b = Builder()
    values = [b.value((4, 4)), b.value((4, 4))]
    kinds = sorted({kind for pair in EPILOGUES for kind in pair} | {"Erf", "Sqrt", "Sub", "QuantizeLinear"})
    for _ in range(40):
        recent = values[-4:] if random.random() < 0.3 else values[-1:]
        inputs = [recent[0], b.weight((4,)) if random.random() < 0.8 else recent[-1]]
        likely = [after for before, after in sorted(EPILOGUES) if b.ops and before == b.ops[-1].op_type] or kinds
        values.append(b.op(str(random.choice(likely if random.random() < 0.5 else kinds)), list(inputs), (4, 4)))
    return b.graph(values[-1])


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_convex(seed):
    graph = _random_graph(seed)
    groups = fusion_groups(graph)
    edges = [(graph.values[v].producer, op.id) for op in graph.ops for v in op.uses]
    quotient = networkx.DiGraph((groups[a], groups[b]) for a, b in edges if a is not None and groups[a] != groups[b])
    assert networkx.is_directed_acyclic_graph(quotient)
    assert all(groups[group] == group <= op for op, group in enumerate(groups))


def test_random_graphs_do_have_groups():
    assert sum(len(set(fusion_groups(_random_graph(seed)))) < 40 for seed in range(60)) > 30
