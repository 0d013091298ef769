# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Weights take on a device what the plan says, by the count of who holds them: ONNX Runtime's arenas and the system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import hetpart
from benchmarks.zoo import ZOO, random_feeds
from hetpart.compiler import PartitionedModel
from hetpart.cost_model.session.packing import held_bytes
from hetpart.devices import Provider
from hetpart.plan.bench import HeldMemory
from hetpart.runtime.held import ValueWatch
from hetpart.runtime.profiles import profiling_options
from tests.runtime import models

Find = Callable[[str], Path]
AMPLE = "100GB"
"""A device with a budget has thrifty sessions."""
TYPES: dict[Any, int] = {
    np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float64): TensorProto.DOUBLE, np.dtype(np.uint8): TensorProto.UINT8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One op, or two, on constants."""

    nodes: tuple[str, ...]
    """Kernel and inputs in text."""
    weights: dict[str, tuple[int, ...]]
    given: tuple[int, ...]
    kind: type[np.generic] = np.float32


def _products(columns: int, *, kind: type[np.generic] = np.float32) -> Case:
    return Case(("y = MatMul (x, w)",), {"w": (37, columns)}, (3, 37), kind)


CASES: dict[str, Case] = {
    **{f"{columns} columns": _products(columns) for columns in (1, 15, 16, 17, 33, 70)},
    "turned": Case(("y = Gemm <transB = 1> (x, w)",), {"w": (5, 37)}, (3, 37)),
    "half precision": _products(17, kind=np.float16),
    "double precision": _products(17, kind=np.float64),
    "a matrix for each of a batch": Case(("y = MatMul (x, w)",), {"w": (2, 37, 5)}, (2, 3, 37)),
    "bytes": Case(("y = MatMulInteger (x, w)",), {"w": (36, 5)}, (3, 36), np.uint8),
    "LSTM": Case(("y, h = LSTM <hidden_size = 5> (x, w, r)",), {"w": (1, 20, 7), "r": (1, 20, 5)}, (3, 2, 7)),
    "GRU": Case(("y, h = GRU <hidden_size = 5> (x, w, r)",), {"w": (1, 15, 7), "r": (1, 15, 5)}, (3, 2, 7)),
    "looked up as well": Case(
        ("a = Gemm <transB = 1> (x, w)", "i = ArgMax <axis = 1, keepdims = 0> (a)", "y = Gather (w, i)"),
        {"w": (40, 37)}, (3, 37),
    ),
    "from both sides": Case(
        ("a = MatMul (x, w)", "b = Exp (a)", "y = Gemm <transB = 1> (b, w)"), {"w": (37, 5)}, (3, 37)
    ),
}  # fmt: skip


def proto_of(case: Case) -> onnx.ModelProto:
    rng, kind = np.random.default_rng(0), np.dtype(case.kind)
    text = "; ".join(case.nodes).replace("; ", "\n")
    proto = models.model(f"cased ({TYPE_NAMES[kind]}[{','.join(map(str, case.given))}] x) => (y) {{ {text} }}")
    for name, shape in case.weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(rng.integers(1, 9, shape).astype(kind), name))
    return onnx.shape_inference.infer_shapes(proto)


TYPE_NAMES = {kind: str(TensorProto.DataType.Name(number)).lower() for kind, number in TYPES.items()}


def counted(model: PartitionedModel, folder: Path, feeds: Mapping[str, Any]) -> dict[str, HeldMemory]:
    bundle, watch = model.bundle(), ValueWatch()
    with hetpart.Session(bundle, profiling_options(folder), emulate=True, record=watch) as session:
        for _ in range(3):
            session.run(None, dict(feeds))
        return session.held_memory(bundle, watch)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_priced_as_the_processors_kernels_hold_them(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(proto_of(CASES[name]), path, save_as_external_data=True, location="model.data", size_threshold=0)
    model = hetpart.partition(path, hardware="emulated", placement="all-accelerator", threads=1)
    given = np.ones(CASES[name].given, CASES[name].kind)
    held = counted(model, tmp_path, {"x": given})["cuda:0"]
    found = held.mapped + held.prepared + held.other_weights
    assert found == model.plan.device("cuda:0").weight_bytes
    assert sum(held_bytes(model.graph, Provider.CUDA)) == sum(weight.nbytes for weight in model.graph.weights)


TIED = """tied (float[4, 512] x) => (float[4, 512] y) {
  [one] a = MatMul (x, w) [mid] b = Exp (a) [two] y = MatMul (b, w)
}"""


@pytest.mark.parametrize("lies", ["in a file", "in the model, where no array begins"])
def test_a_weight_of_two_products_is_there_once(lies: str, tmp_path: Path) -> None:
    proto = models.model(TIED)
    weight = np.random.default_rng(0).standard_normal((512, 512), np.float32) / 512
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=lies == "in a file", location="model.data")
    if lies != "in a file":
        while path.read_bytes().find(weight.tobytes()) % 4 == 0:
            proto.doc_string += "."
            onnx.save_model(proto, path)
    model = hetpart.partition(path, hardware="emulated", pin=["node:one=cuda", "node:mid=cpu", "node:two=cuda"])
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 512), np.float32)}
    held = counted(model, tmp_path, feeds)["cuda:0"]
    assert held.mapped + held.prepared + held.other_weights == weight.nbytes
    with hetpart.Session(model.bundle(), emulate=True) as session:
        (ours,) = session.run(None, feeds)
        assert [value.name for value in session.get_inputs()] == ["x"]
    plain: Any = models.plain(onnx.load(path)).run(None, feeds)
    np.testing.assert_allclose(ours, plain[0], rtol=1e-4, atol=1e-6)


PLACED = [
    ("wide-and-deep-tiny", "random:4"), ("wide-and-deep-tiny", "all-accelerator"), ("dlrm-tiny", "random:1"),
    ("dlrm-tiny", "random:4"), ("moe-dense-tiny", "random:1"), ("control-flow-tiny", "all-accelerator"),
    ("control-flow-tiny", "random:3"), ("gpt2-tiny", "density"), ("bert-tiny", "random:1"),
]  # fmt: skip


@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize(("name", "placement"), PLACED)
def test_no_device_holds_more_than_is_predicted(
    name: str, placement: str, thrifty: bool, zoo_model: Find, tmp_path: Path
) -> None:
    path = zoo_model(name)
    budgets: dict[str, Any] = {"budget": AMPLE, "host_budget": AMPLE} if thrifty else {}
    shape = dict(ZOO[name].shape)
    model = hetpart.partition(path, hardware="emulated", shape=shape, placement=placement, threads=1, **budgets)
    held = counted(model, tmp_path, random_feeds(name, path))
    assert held.keys() == {use.device for use in model.plan.devices}
    for use in model.plan.devices:
        assert held[use.device].peak <= use.peak_bytes


def test_the_host_pads_what_a_gpu_does_not() -> None:
    rng = np.random.default_rng(0)
    proto = models.model("narrow (float[4, 256] x) => (float[4, 1] y) { [only] y = MatMul (x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((256, 1), np.float32), "w"))
    here, there = (hetpart.partition(proto, hardware="l4", placement=p) for p in ("all-cpu", "all-accelerator"))
    assert here.plan.device("cpu").weight_bytes == 256 * 16 * 4
    assert there.plan.device("cuda:0").weight_bytes == 256 * 1 * 4


def test_weights_inside_a_body_weigh_where_its_op_runs(zoo_model: Find) -> None:
    """Two of [16, 16] around the bodies, four in them, and three scalars, which a GPU may leave on the host."""
    path = zoo_model("control-flow-tiny")
    for placement, device in (("all-cpu", "cpu"), ("all-accelerator", "cuda:0")):
        model = hetpart.partition(path, hardware="l4", shape={"batch": 2}, placement=placement)
        assert model.plan.device(device).weight_bytes in range(6 * 16 * 16 * 4, 6 * 16 * 16 * 4 + 10)
