# pyright: reportPrivateUsage=false
"""Weights in files are there once, whoever reads them, and are not read before they are needed."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.errors import HetpartError
from hetpart.plan.weights import external_tensors
from hetpart.runtime.device_weights import DeviceWeights
from hetpart.runtime.mapped import mapped_weights
from tests.runtime.models import assert_same

PINS = {f"node:{name}": "cpu" for name in ("first", "product", "more", "second", "y")}
PINS |= {"node:sums": "cuda", "node:positive": "cuda"}
ROWS, WIDTH = 200_000, 64
TABLE_BYTES = ROWS * WIDTH * 4


def _model(folder: Path) -> Path:
    """Two lookups in one table with a product between them, and a matrix that both ends multiply with."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, WIDTH), np.float32)
    square = rng.standard_normal((WIDTH, WIDTH), np.float32)
    (folder / "weights.bin").write_bytes(table.tobytes() + square.tobytes())
    tensors = [_external("table", [ROWS, WIDTH], 0), _external("square", [WIDTH, WIDTH], TABLE_BYTES)]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["first"], name="first"),
        helper.make_node("MatMul", ["first", "square"], ["product"], name="product"),
        helper.make_node("ReduceSum", ["product", "axes"], ["sums"], name="sums", keepdims=0),
        helper.make_node("Abs", ["sums"], ["positive"], name="positive"),
        helper.make_node("Cast", ["positive"], ["more"], name="more", to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "more"], ["second"], name="second"),
        helper.make_node("MatMul", ["second", "square"], ["y"], name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "tables",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, WIDTH])],
        [*tensors, helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def _external(name: str, shape: list[int], offset: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", 4 * int(np.prod(shape)))):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _model(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def bundle(path: Path) -> hetpart.PartitionedModel:
    return hetpart.partition(path, hardware="emulated", pin=PINS)


def _mapped_bytes(path: Path) -> int:
    """Bytes of the file that are in this process's memory, every mapping of them counted."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if not head.endswith(":"):
            inside = line.endswith(str(path))
        elif head == "Rss:" and inside:
            total += 1024 * int(line.split()[1])
    return total


def test_a_table_in_two_partitions_is_held_once(path: Path, bundle: hetpart.PartitionedModel) -> None:
    assert [partition.device for partition in bundle.plan.partitions] == ["cpu", "cuda:0", "cpu"]
    ids = {"ids": np.arange(0, ROWS, ROWS // 8)[:8]}
    uncut = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = uncut.run(None, ids)
    del uncut
    with bundle.session(emulate=True, threads=1) as session:
        first, _, last = session._weights
        assert set(first) == set(last) == {"table", "square"}
        assert all(first[name] is last[name] for name in first)
        assert _mapped_bytes(path.with_name("weights.bin")) < TABLE_BYTES // 4
        np.testing.assert_allclose(session.run(None, ids)[0], expected[0], rtol=1e-5)
        for start in range(0, ROWS, ROWS // 500):
            session.run(None, {"ids": np.arange(start, start + 8) % ROWS})
        assert _mapped_bytes(path.with_name("weights.bin")) <= TABLE_BYTES + 4 * WIDTH * WIDTH + 2**20


def test_weights_of_a_model_that_was_never_in_a_file_are_shared_too() -> None:
    """The small ones are left where they are."""
    square, shift = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((64, 64), (64,)))
    weights = {"square": square, "shift": shift}
    nodes = [("MatMul", "x square first"), ("Add", "first shift more"), ("Neg", "more other"),
             ("MatMul", "other square last"), ("Add", "last shift y")]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(op, names.split()[:-1], names.split()[-1:], name=names.split()[-1]) for op, names in nodes],
        "both ends",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])],
        [numpy_helper.from_array(content, name) for name, content in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {"x": np.random.default_rng(1).standard_normal((8, 64), np.float32)}
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    pins = {f"node:{names.split()[-1]}": "cuda" if op == "Neg" else "cpu" for op, names in nodes}
    with hetpart.partition(proto, hardware="emulated", pin=pins).session(emulate=True) as session:
        first, between, last = session._weights
        assert set(first) == set(last) == {"square"}
        assert first["square"] is last["square"]
        assert not between
        assert_same(session.run(None, feeds), expected.run(None, feeds))


def test_what_is_not_the_files_is_left_to_onnxruntime(bundle: hetpart.PartitionedModel) -> None:
    opened = bundle.bundle()
    proto = onnx.load_model_from_string(opened.models[0])
    for location, offset in (("../weights.bin", 0), ("nowhere.bin", 0), ("weights.bin", TABLE_BYTES), ("", 0)):
        for tensor in external_tensors([proto]):
            del tensor.external_data[:]
            tensor.external_data.add(key="location", value=location)
            tensor.external_data.add(key="offset", value=str(offset))

        models = (proto.SerializeToString(), *opened.models[1:])
        strange = type(opened)(opened.plan, models, opened.weights)
        given = mapped_weights(strange, emulate=True)[0]
        assert "table" not in given
        with pytest.raises(HetpartError):
            hetpart.Session(strange, emulate=True)


def test_every_loaded_partition_is_told_of(bundle: hetpart.PartitionedModel) -> None:
    told: list[str] = []
    hetpart.Session(bundle.bundle(), emulate=True, progress=told.append).close()
    assert told == [f"loading the partitions: {number} of 3" for number in (1, 2, 3)]


def test_weights_are_let_go_of_at_close(path: Path, bundle: hetpart.PartitionedModel) -> None:
    ids = {"ids": np.arange(8)}
    gc.collect()  # what other tests left in cycles maps the file too
    session = bundle.session(emulate=True, threads=1)
    (before,) = session.run(None, ids)
    session.close()
    del session
    assert _mapped_bytes(path.with_name("weights.bin")) == 0
    with bundle.session(emulate=True, threads=1) as again:
        assert_same(again.run(None, ids), [before])


def test_a_weight_that_lies_on_a_device_is_read_there_by_every_session() -> None:
    """Here the device is the host: what is written to the one copy, both sessions see."""
    table = np.arange(200_000, dtype=np.float32).reshape(-1, 4)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "at"], ["y"])],
        "rows",
        [helper.make_tensor_value_info("at", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(table, "table")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    shared = DeviceWeights()
    host = onnxruntime.OrtValue.ortvalue_from_numpy(table)
    values = [shared.value("cpu:0", "table", host) for _ in range(2)]
    assert values[0] is values[1] is not None
    sessions = []
    for value in values:
        options = onnxruntime.SessionOptions()
        options.add_initializer("table", value)
        sessions.append(
            onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        )
    table[3] = -1
    for session in sessions:
        assert session.run(None, {"at": np.array([3, 4])})[0].tolist() == [[-1] * 4, table[4].tolist()]


def test_a_weight_that_no_device_takes_is_left_to_each_session_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared, host = DeviceWeights(), onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32))
    assert [shared.value("nowhere:0", "w", host) for _ in range(2)] == [None, None]
    (told,) = caplog.messages
    assert "the weight 'w' is on nowhere:0 once for each session" in told
