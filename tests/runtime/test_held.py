"""What runs hold on a device is what a model of known sizes must hold there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.plan.bench import HeldMemory
from hetpart.runtime.footprint import FilePart, MappedSpan, mapped_spans
from hetpart.runtime.held import ArenaUse, ValueWatch
from hetpart.runtime.profiles import profiling_options

ROWS, WIDTH, SIDE, BATCH = 40_000, 64, 512, 1024
TABLE_BYTES, SQUARE_BYTES, BATCH_BYTES = ROWS * WIDTH * 4, SIDE * SIDE * 4, BATCH * SIDE * 4


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lookup in a table, and beside it two products and what follows them, with weights in a file."""
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.standard_normal((ROWS, WIDTH), np.float32),
        "w": rng.standard_normal((SIDE, SIDE), np.float32),
        "bias": rng.standard_normal(10**6 // 4, np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="look"),
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Exp", ["a"], ["b"], name="exp"),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="second"),
        helper.make_node("Add", ["long", "bias"], ["z"], name="add"),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [7]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, SIDE]),
        helper.make_tensor_value_info("long", TensorProto.FLOAT, [10**6 // 4]),
    ]
    outputs = [
        helper.make_tensor_value_info("rows", TensorProto.FLOAT, [7, WIDTH]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, SIDE]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [10**6 // 4]),
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "held", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path_factory.mktemp("held") / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="model.data", size_threshold=1024)
    return path


def held(path: Path | onnx.ModelProto, accelerated: set[str], folder: Path) -> dict[str, HeldMemory]:
    names = ("look", "first", "exp", "second", "add")
    pins = [f"node:{name}={'cuda' if name in accelerated else 'cpu'}" for name in names]
    model = hetpart.partition(path, hardware="emulated", pin=pins, threads=1)
    bundle, watch = model.bundle(), ValueWatch()
    feeds = {
        "ids": np.arange(7),
        "x": np.ones((BATCH, SIDE), np.float32),
        "long": np.ones(10**6 // 4, np.float32),
    }
    with hetpart.Session(bundle, profiling_options(folder), emulate=True, record=watch) as session:
        for _ in range(3):
            session.run(None, feeds)
        found = session.held_memory(bundle, watch)
    assert list(folder.iterdir()) == []
    return found


def test_every_device_holds_what_its_partitions_need(path: Path, tmp_path: Path) -> None:
    found = held(path, {"first", "exp", "second"}, tmp_path)
    host, accelerator = found["cpu"], found["cuda:0"]
    assert host.mapped == TABLE_BYTES + 10**6
    assert host.prepared < 10_000
    assert host.other_weights == accelerator.other_weights == 0
    assert accelerator.mapped == 0, "products read the packed copy alone"
    assert SQUARE_BYTES <= accelerator.prepared <= 1.1 * SQUARE_BYTES
    assert BATCH_BYTES <= accelerator.activations <= 2.2 * BATCH_BYTES
    assert 2 * BATCH_BYTES <= accelerator.buffers <= 2.1 * BATCH_BYTES
    assert accelerator.values == 0
    fed = 7 * 8 + BATCH_BYTES + 10**6
    assert fed <= host.values <= fed + 7 * WIDTH * 4 + BATCH_BYTES + 10**6
    assert accelerator.reserved >= accelerator.prepared + accelerator.activations


def test_a_weight_counts_on_every_device_that_reads_it(path: Path, tmp_path: Path) -> None:
    found = held(path, {"look", "first", "add"}, tmp_path)
    assert found["cuda:0"].mapped == TABLE_BYTES + 10**6
    assert found["cpu"].mapped == 0
    assert all(SQUARE_BYTES <= own.prepared <= 1.1 * SQUARE_BYTES for own in found.values())


def test_weights_that_nobody_counts_are_as_large_as_the_model_has_them(path: Path, tmp_path: Path) -> None:
    """None lies in a file here: a table of rows that are looked up, and one that is added, which no kernel packs."""
    found = held(onnx.load(path), {"first", "exp", "second"}, tmp_path)
    host = found["cpu"]
    assert host.mapped == 0
    assert 0.99 * (TABLE_BYTES + 10**6) <= host.prepared + host.other_weights <= 1.01 * (TABLE_BYTES + 10**6)
    assert SQUARE_BYTES <= found["cuda:0"].prepared + found["cuda:0"].other_weights <= 1.1 * SQUARE_BYTES


def _event(ts: int, in_use: int, change: int, peak: int, reserved: int = 100, provider: str = "P") -> dict[str, object]:
    args = {
        "provider": provider, "mem_bytes_in_use": str(in_use), "mem_in_use_delta": str(change),
        "mem_in_use_peak": str(peak), "mem_arena_held": str(reserved),
    }  # fmt: skip
    return {"ts": ts, "args": args}


ACCOUNTS: dict[str, tuple[list[dict[str, object]], ArenaUse | None]] = {
    "no node": ([], ArenaUse(0, 0, 0)),
    "a run took most": ([_event(1, 30, 20, 30), _event(2, 25, -5, 45)], ArenaUse(10, 35, 100)),
    "the making took most": ([_event(1, 30, 20, 90), _event(2, 25, -5, 90, 120)], ArenaUse(10, 20, 120)),
    "listed by their ends": ([_event(5, 20, 5, 45), _event(1, 15, 5, 15)], ArenaUse(10, 35, 100)),
    "another provider": ([_event(1, 9, 9, 9, provider="Q"), _event(2, 12, 2, 12)], ArenaUse(10, 2, 100)),
    "older than 1.28": ([{"ts": 1, "args": {"provider": "P"}}], None),
}


@pytest.mark.parametrize("case", ACCOUNTS)
def test_an_arena_is_read_from_its_nodes(case: str) -> None:
    events, expected = ACCOUNTS[case]
    assert ArenaUse.of(events, "P") == expected


def test_what_is_mapped_is_known_in_one_piece(tmp_path: Path) -> None:
    import mmap

    page = mmap.PAGESIZE
    file = tmp_path / "a file with spaces"
    file.write_bytes(bytes(8 * page))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.madvise(mmap.MADV_RANDOM, 2 * page, 3 * page)
        (span,) = [span for span in mapped_spans() if span.part.path == str(file)]
        assert span.part == FilePart(str(file), 0, 8 * page)
    assert not [span for span in mapped_spans() if span.part.path == str(file)]
    assert MappedSpan(FilePart("f", page, page), 0).joined(MappedSpan(FilePart("f", 3 * page, page), page)) is None


def test_what_one_device_has_mapped_another_that_folds_it_has_not(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((1024, 64), np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], name="look"),
        helper.make_node("Transpose", ["table"], ["turned"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["y"], name="product"),
    ]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [7])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 1024])]
    graph = helper.make_graph(nodes, "tied", inputs, outputs, [numpy_helper.from_array(table, "table")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="model.data", size_threshold=1024)
    model = hetpart.partition(path, hardware="emulated", pin=["node:look=cpu", "node:product=cuda"], threads=1)
    bundle, watch = model.bundle(), ValueWatch()
    with hetpart.Session(bundle, profiling_options(tmp_path), emulate=True, record=watch) as session:
        for _ in range(3):
            session.run(None, {"ids": np.arange(7)})
        found = session.held_memory(bundle, watch)
    assert found["cpu"].mapped == table.nbytes
    assert found["cuda:0"].mapped == 0
    assert found["cuda:0"].prepared >= table.nbytes
    assert found["cuda:0"].peak <= model.plan.device("cuda:0").peak_bytes
