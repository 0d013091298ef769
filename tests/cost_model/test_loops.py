"""Kernels of the CPU provider in plain loops take the time that they were measured to take."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import hetpart
from hetpart.cost_model.work import Work
from tests.cost_model.float_models import feeds_of

Sizes = tuple[int, ...]
ML, CONTRIB = "ai.onnx.ml", "com.microsoft"
OPSETS = {ML: 3, CONTRIB: 1}
NEW = {"Attention": 23}
"""Operators that are newer than others whose kernels end before."""
FACTOR = 1.6
CYCLES = 3.5e6
"""A millisecond of an EPYC 9004, as the cycles of formulas are told."""
NUMBERS = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Case:
    """An op, what it reads and makes, and the milliseconds that it takes on one thread."""

    op_type: str
    inputs: tuple[Any, ...]
    """Shapes, or what a constant holds."""
    milliseconds: float
    domain: str = ""
    outputs: int = 1
    dtype: str = "float32"
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def model(self) -> onnx.ModelProto:
        """Of the op alone, whose results have the shapes that ONNX Runtime gives them."""
        names = [f"x{place}" if value is not None else "" for place, value in enumerate(self.inputs)]
        pairs = list(zip(names, self.inputs, strict=True))
        kind = onnx.TensorProto.STRING if self.dtype == "str" else helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        given = [helper.make_tensor_value_info(n, kind, v) for n, v in pairs if isinstance(v, tuple)]
        held = [numpy_helper.from_array(v, n) for n, v in pairs if isinstance(v, np.ndarray)]
        made = [f"y{place}" for place in range(self.outputs)]
        node = helper.make_node(self.op_type, names, made, domain=self.domain, **self.options)
        graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name=name) for name in made], held)
        opsets = [helper.make_opsetid(*pair) for pair in {"": NEW.get(self.op_type, 21), **OPSETS}.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def case(op_type: str, inputs: list[Any], milliseconds: float, **options: Any) -> Case:
    own = {name: options.pop(name) for name in ("domain", "outputs", "dtype") if name in options}
    return Case(op_type, tuple(inputs), milliseconds, options=options, **own)


def work_of_case(it: Case) -> Work:
    """Of the op, whose results ONNX Runtime says the shapes of by running it."""
    model = it.model()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {given.name: np.array(["ab cd"] * 100, object) for given in model.graph.input if it.dtype == "str"}
    results = session.run(None, feeds or feeds_of(model))
    for value, result in zip(model.graph.output, results, strict=True):
        kind = next(made.type for made in session.get_outputs() if made.name == value.name)
        array = np.asarray(result)
        tensor = onnx.TensorProto.STRING if "string" in kind else helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, tensor, array.shape))
    (op,) = hetpart.annotate(model, hardware="l4+epyc-genoa", threads=1).ops
    return op.work


def number(value: float, dtype: str = "int64") -> np.ndarray[Any, Any]:
    return np.array(value, dtype)


def image_bytes(window: int, milliseconds: float, **options: Any) -> Case:
    """An average of windows of quantized images."""
    scale, zero = number(0.1, "float32"), number(3, "uint8")
    return case("QLinearAveragePool", [(1, 64, 64, 64), scale, zero, scale, zero], milliseconds, domain=CONTRIB,
                dtype="uint8", kernel_shape=[window] * 2, **options)  # fmt: skip


@cache
def forest(trees: int, depth: int) -> dict[str, Any]:
    """Complete trees over 50 features."""
    nodes = 2 ** (depth + 1) - 1
    every = [(tree, node) for tree in range(trees) for node in range(nodes)]
    leaves = [(tree, node) for tree, node in every if node >= nodes // 2]
    inner = [node < nodes // 2 for _, node in every]
    return {
        "n_targets": 1, "target_treeids": [tree for tree, _ in leaves], "target_nodeids": [node for _, node in leaves],
        "target_ids": [0] * len(leaves), "target_weights": [1.0] * len(leaves),
        "nodes_treeids": [tree for tree, _ in every], "nodes_nodeids": [node for _, node in every],
        "nodes_featureids": [int(NUMBERS.integers(50)) for _ in every],
        "nodes_values": [float(NUMBERS.standard_normal()) for _ in every],
        "nodes_truenodeids": [2 * node + 1 if has else 0 for (_, node), has in zip(every, inner, strict=True)],
        "nodes_falsenodeids": [2 * node + 2 if has else 0 for (_, node), has in zip(every, inner, strict=True)],
        "nodes_modes": ["BRANCH_LEQ" if has else "LEAF" for has in inner], "domain": ML,
    }  # fmt: skip


def supported(features: int) -> dict[str, Any]:
    """By the distance to a hundred vectors."""
    return {
        "coefficients": [1.0] * 100, "support_vectors": [1.0] * 100 * features, "n_supports": 100, "rho": [0.0],
        "kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0], "domain": ML,
    }  # fmt: skip


def aligned(samples: int, milliseconds: float) -> Case:
    regions = np.tile(np.array([[2, 2, 22, 22]], "float32"), (100, 1))
    return case("RoiAlign", [(1, 256, 50, 50), regions, np.zeros(100, "int64")], milliseconds, output_height=7,
                output_width=7, sampling_ratio=samples)  # fmt: skip


def recurrent(steps: int, batch: int, hidden: int, milliseconds: float, **options: Any) -> Case:
    weights = [np.zeros((1, hidden, 128), "float32"), np.zeros((1, hidden, hidden), "float32")]
    return case("RNN", [(steps, batch, 128), *weights], milliseconds, outputs=2, hidden_size=hidden, **options)


def turned(channels: int, side: int, window: int, stride: int, milliseconds: float) -> Case:
    weight = np.zeros((channels, 1, window, window), "float32")
    return case("ConvTranspose", [(1, channels, side, side), weight], milliseconds, strides=[stride] * 2,
                group=channels)  # fmt: skip


DRAWS = [number(0.5, "float32"), number(1, "bool")]
CROPPED = [np.tile(np.array([[0.1, 0.1, 0.9, 0.9]], "float32"), (50, 1)), np.zeros(50, "int32")]
REGIONS = np.tile(np.array([[0, 0, 0, 20, 20]], "float32"), (50, 1))
SERIAL = {
    "128 samples": case("DFT", [(16, 128, 1), None, number(1)], 0.029),
    "512 samples": case("DFT", [(16, 512, 1), None, number(1)], 0.127),
    "4096 samples": case("DFT", [(16, 4096, 1), None, number(1)], 1.284),
    "one signal": case("DFT", [(1, 512, 1), None, number(1)], 0.013),
    "one side": case("DFT", [(16, 512, 1), None, number(1)], 0.127, onesided=1),
    "100 samples": case("DFT", [(16, 100, 1), None, number(1)], 0.145),
    "500 samples": case("DFT", [(16, 500, 1), None, number(1)], 0.642),
    "1000 samples": case("DFT", [(16, 1000, 1), None, number(1)], 1.4),
    "one signal of 500": case("DFT", [(1, 500, 1), None, number(1)], 0.073),
    "frames of 256": case("STFT", [(1, 16000, 1), number(160), np.ones(256, "float32")], 0.364),
    "frames of 400": case("STFT", [(1, 16000, 1), number(160), np.ones(400, "float32")], 3.74),
    "frames of 400, of a long signal": case("STFT", [(1, 48000, 1), number(160), np.ones(400, "float32")], 11.4),
    "frames of 512": case("STFT", [(1, 16000, 1), number(160), np.ones(512, "float32")], 0.767),
    "frames of 600": case("STFT", [(1, 16000, 1), number(160), np.ones(600, "float32")], 7.94),
    "distances of 10": case("SVMRegressor", [(1000, 10)], 0.668, **supported(10)),
    "distances of 50": case("SVMRegressor", [(1000, 50)], 2.98, **supported(50)),
    "distances of 200": case("SVMRegressor", [(1000, 200)], 13.5, **supported(200)),
    "normalized": case("Normalizer", [(10_000, 50)], 3.06, norm="L2", domain=ML),
    "normalized by sums": case("Normalizer", [(10_000, 50)], 0.318, norm="L1", domain=ML),
    "binary": case("Binarizer", [(10_000, 50)], 2.42, domain=ML),
    "determinants of 8": case("Det", [(1000, 8, 8)], 0.28),
    "determinants of 64": case("Det", [(500, 64, 64)], 8.74),
    "determinants of 128": case("Det", [(10, 128, 128)], 0.83),
    "exponents of doubles": case("Softmax", [(400, 1000)], 2.17, dtype="float64"),
    "dropped": case("Dropout", [(1_000_000,), *DRAWS], 4.24),
    "regions": case("MaxRoiPool", [(1, 64, 50, 50), REGIONS], 1.52, pooled_shape=[7, 7]),
    "to strings": case("Cast", [(1000,)], 0.172, to=onnx.TensorProto.STRING),
    "added by channel": turned(64, 32, 4, 2, 0.509),
    "added by channel, of threes": turned(64, 32, 3, 1, 0.134),
    "added by channel, of twos": turned(64, 32, 2, 2, 0.074),
    "split": case("StringSplit", [(100,)], 0.0098, dtype="str", outputs=2, delimiter=" "),
    "matched": case("RegexFullMatch", [(100,)], 0.0067, dtype="str", pattern="[a-z ]+"),
}  # fmt: skip
SPREAD = {
    "norms of 2": case("LpPool", [(2, 64, 56, 56)], 6.3, kernel_shape=[2, 2], strides=[2, 2]),
    "norms of 3": case("LpPool", [(2, 64, 56, 56)], 45.0, kernel_shape=[3, 3]),
    "norms of 7": case("LpPool", [(2, 64, 56, 56)], 193.0, kernel_shape=[7, 7]),
    "norms of lines": case("LpPool", [(1, 64, 1000)], 3.98, kernel_shape=[4]),
    "third norms": case("LpPool", [(2, 64, 56, 56)], 6.8, kernel_shape=[2, 2], strides=[2, 2], p=3),
    "norms of images": case("GlobalLpPool", [(2, 64, 56, 56)], 4.73),
    "norms of small images": case("GlobalLpPool", [(2, 64, 28, 28)], 1.15),
    "averaged bytes of 2": image_bytes(2, 1.97), "averaged bytes of 3": image_bytes(3, 2.32),
    "averaged bytes of 5": image_bytes(5, 3.66), "averaged bytes, channels last": image_bytes(3, 1.34, channels_last=1),
    "largest bytes of 2": case("MaxPool", [(2, 64, 56, 56)], 4.42, dtype="uint8", kernel_shape=[2, 2]),
    "largest bytes of 5": case("MaxPool", [(2, 64, 56, 56)], 11.8, dtype="uint8", kernel_shape=[5, 5]),
    "largest bytes of lines": case("MaxPool", [(1, 64, 10000)], 6.61, dtype="uint8", kernel_shape=[9]),
    "largest of float64": case("MaxPool", [(2, 64, 56, 56)], 7.48, dtype="float64", kernel_shape=[3, 3]),
    "largest of volumes": case("MaxPool", [(1, 32, 8, 32, 32)], 6.12, dtype="float64", kernel_shape=[2] * 3),
    "trees": case("TreeEnsembleRegressor", [(1000, 50)], 3.38, **forest(100, 6)),
    "low trees": case("TreeEnsembleRegressor", [(1000, 50)], 1.65, **forest(100, 3)),
    "few trees": case("TreeEnsembleRegressor", [(1000, 50)], 0.315, **forest(10, 6)),
    "scaled": case("Scaler", [(10_000, 50)], 1.25, offset=[0.0] * 50, scale=[1.0] * 50, domain=ML),
    "inverses of 32": case("Inverse", [(100, 32, 32)], 0.743, domain=CONTRIB),
    "inverses of 128": case("Inverse", [(10, 128, 128)], 2.1, domain=CONTRIB),
    "cropped": case("CropAndResize", [(1, 64, 64, 64), *CROPPED, number(14, "int32").repeat(2)], 2.68, domain=CONTRIB),
    "aligned by one": aligned(1, 6.19), "aligned by four": aligned(2, 12.0), "aligned by sixteen": aligned(4, 34.5),
    "capped": case("Attention", [(1, 12, 256, 64)] * 3, 13.1, softcap=5.0),
    "capped, few": case("Attention", [(1, 12, 64, 64)] * 3, 1.07, softcap=5.0),
}  # fmt: skip
"""Milliseconds of ONNX Runtime 1.31 on one core of an EPYC 9004, the least of several runs, of numbers drawn by chance;
of what a second thread takes a part of, and of what it does not."""


@pytest.mark.parametrize("name", SERIAL)
def test_cycles_on_one_thread_are_of_the_order_measured(name: str) -> None:
    work, measured = work_of_case(SERIAL[name]), SERIAL[name].milliseconds
    assert not work.spread_cycles
    assert measured / FACTOR < work.serial_cycles / CYCLES < FACTOR * measured


@pytest.mark.parametrize("name", SPREAD)
def test_cycles_on_all_threads_are_of_the_order_measured(name: str) -> None:
    work, measured = work_of_case(SPREAD[name]), SPREAD[name].milliseconds
    assert not work.serial_cycles
    assert measured / FACTOR < work.spread_cycles / CYCLES < FACTOR * measured


@pytest.mark.parametrize(
    "it",
    [
        recurrent(50, 8, 256, 2.28), recurrent(50, 8, 64, 0.277), recurrent(50, 1, 256, 0.28),
        recurrent(50, 8, 512, 6.7), recurrent(50, 8, 256, 1.21, activations=["Relu"]),
        recurrent(50, 8, 256, 1.93, activations=["HardSigmoid"], activation_alpha=[0.2], activation_beta=[0.5]),
    ],
)  # fmt: skip
def test_an_rnn_computes_products_on_all_threads_and_its_activation_on_one(it: Case) -> None:
    work = work_of_case(it)
    activation = str(it.options.get("activations", ["Tanh"])[0])
    assert bool(work.serial_cycles) == (activation != "Relu")
    assert it.milliseconds / FACTOR < (work.serial_cycles + work.spread_cycles) / CYCLES < FACTOR * it.milliseconds


@pytest.mark.parametrize("trains", [0, 1])
def test_dropout_draws_where_it_trains_alone(trains: int) -> None:
    it = case("Dropout", [(1000,), number(0.5, "float32"), number(trains, "bool")], 0.0)
    assert bool(work_of_case(it).serial_cycles) == bool(trains)


def test_grouped_queries_meet_no_more_keys_than_the_buffer_of_all_holds() -> None:
    """FLOPs by hand: two products of 8 tokens of 4 heads of 16 with 16 keys, and 5 flops of a softmax for each pair."""
    past, ends = (1, 2, 16, 16), [number(15, "int32").reshape(1), number(16, "int32")]
    it = case("GroupQueryAttention", [(1, 8, 64), (1, 8, 32), (1, 8, 32), past, past, *ends], 0.0, domain=CONTRIB,
              outputs=3, num_heads=4, kv_num_heads=2)  # fmt: skip
    whole = work_of_case(it).flops
    it = case("GroupQueryAttention", [(1, 8, 64), (1, 8, 32), (1, 8, 32), (1, 2, 8, 16), (1, 2, 8, 16), *ends], 0.0,
              domain=CONTRIB, outputs=3, num_heads=4, kv_num_heads=2)  # fmt: skip
    assert whole == work_of_case(it).flops == pytest.approx(4 * 8 * 16 * 4 * 16, rel=0.15)


@pytest.mark.parametrize(("softcap", "cycles"), [(0.0, 0), (5.0, 50 * 4 * 64 * 32.5)])
def test_grouped_queries_cap_scores_with_keys_before_them(softcap: float, cycles: float) -> None:
    ends = [number(63, "int32").reshape(1), number(64, "int32")]
    it = case("GroupQueryAttention", [(1, 64, 64), (1, 64, 32), (1, 64, 32), None, None, *ends], 0.0, domain=CONTRIB,
              outputs=3, num_heads=4, kv_num_heads=2, softcap=softcap)  # fmt: skip
    work = work_of_case(it)
    assert work.spread_cycles == pytest.approx(cycles and cycles + work.flops / 25)
