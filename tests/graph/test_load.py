"""What is read of a model file and its external data, and what is refused before anything is."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

import hetpart
from hetpart.errors import InvalidModelError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.load import load, read
from tests.graph.models import from_text

ROWS, COLUMNS = 16, 256
NBYTES = ROWS * COLUMNS * 4
SPARSE_BYTES = 100 * 10**9
SPARSE_INLINE_BYTES = 20 * 10**9


def embedding(path: Path, rows: int = ROWS, **entries: object) -> Path:
    """A model at ``path`` whose table lies in ``table.bin`` as ``entries`` say."""
    table = onnx.TensorProto(name="table", data_type=1, dims=[rows, COLUMNS], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in ({"location": "table.bin"} | entries).items():
        table.external_data.add(key=key, value=str(value))
    model = from_text("""<ir_version: 9, opset_import: ["": 18]> embedding (int64[4] ids) => (float[4, 256] y)
        { y = Gather (table, ids) }""")
    model.graph.initializer.append(table)
    path.write_bytes(model.SerializeToString())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InvalidModelError) as caught:
        load(path)
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize(
    "entries", [{}, {"offset": 0, "length": NBYTES}, {"offset": 4096}, {"location": "./table.bin"}]
)
def test_external_data_beside_the_model_is_taken(tmp_path: Path, entries: dict[str, object]) -> None:
    (tmp_path / "table.bin").write_bytes(bytes(4096 + NBYTES))
    graph = import_onnx(embedding(tmp_path / "m.onnx", **entries)).graph
    assert [(weight.name, weight.nbytes) for weight in graph.weights] == [("table", NBYTES)]


def test_external_data_may_lie_in_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "t").write_bytes(bytes(NBYTES))
    assert load(embedding(tmp_path / "m.onnx", location="data/deep/t")).folder == tmp_path


def test_a_link_that_stays_in_the_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(bytes(NBYTES))
    (tmp_path / "table.bin").symlink_to("real.bin")
    assert load(embedding(tmp_path / "m.onnx")).folder == tmp_path


ESCAPES: dict[str, Callable[[Path], str]] = {
    "a parent": lambda outside: f"../{outside.name}",
    "a parent further in": lambda outside: f"data/../../{outside.name}",
    "an absolute path": str,
    "a link": lambda _: "link.bin",
    "a link to a folder": lambda outside: f"folder/{outside.name}",
}


@pytest.mark.parametrize("way", ESCAPES.values(), ids=ESCAPES)
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, way: Callable[[Path], str]) -> None:
    outside = tmp_path / "secret.bin"
    outside.write_bytes(bytes(NBYTES))
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "link.bin").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    location = way(outside)
    said = refusal(embedding(folder / "m.onnx", location=location))
    told = f"{location!r}, a link that leads out of the model's folder to {outside}"
    assert (told if "link" in location or "folder" in location else f"the model's folder: {location!r}") in said


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"location": "none.bin"}, "needs 'none.bin', which does not exist"),
        ({"location": "."}, "needs '.', which does not exist"),
        ({"location": ""}, "points outside"),
        ({"location": "a\0b"}, "points outside"),
        ({"location": "a" * 5000}, "needs 'aaa"),
        ({"location": "loop.bin"}, "needs 'loop.bin', which does not exist"),
        ({"location": "table.bin/inner"}, "which does not exist"),
        ({"offset": 1}, f"ends at byte {NBYTES + 1} of 'table.bin', which has {NBYTES}"),
        ({"offset": -1}, "at offset -1"),
        ({"offset": "first"}, "not a number"),
        ({"offset": "9" * 5000}, "not a number"),
        ({"length": NBYTES - 1}, f"says {NBYTES - 1} bytes at offset 0, but its shape needs {NBYTES}"),
        ({"length": 2 * NBYTES}, "its shape needs"),
        ({"offset": 2**62}, "ends at byte"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused(tmp_path: Path, entries: dict[str, object], said: str) -> None:
    (tmp_path / "table.bin").write_bytes(bytes(NBYTES))
    (tmp_path / "loop.bin").symlink_to("loop.bin")
    assert said in refusal(embedding(tmp_path / "m.onnx", **entries))


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table.bin")
    assert "does not exist" in refusal(embedding(tmp_path / "m.onnx"))
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is no plain file" in refusal(tmp_path / "pipe.onnx")


def test_references_in_bodies_and_constants_are_checked_too(tmp_path: Path) -> None:
    table = onnx.TensorProto(name="t", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="../secret")
    constant = helper.make_node("Constant", [], ["c"], value=table)
    body = helper.make_graph([constant], "b", [], [onnx.ValueInfoProto(name="c")])
    for nodes in ([constant], [helper.make_node("If", ["x"], ["c"], then_branch=body, else_branch=body)]):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 9, [])], [])
        graph.output.add().name = "c"
        (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
        assert "points outside" in refusal(tmp_path / "m.onnx")


def test_a_file_that_many_need_is_named_once(tmp_path: Path) -> None:
    model = onnx.load(embedding(tmp_path / "m.onnx"), load_external_data=False)
    for copy in range(7):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"copy{copy}"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    said = refusal(tmp_path / "m.onnx")
    assert said.count("table.bin") == 1
    assert "which does not exist, and so do 7 more" in said


def cached(folder: Path, *names: str) -> Path:
    """The files as a download cache keeps them: under names of its own, with links to them."""
    (folder / "blobs").mkdir()
    (folder / "snapshot").mkdir()
    for name in names:
        (folder / name).rename(folder / "blobs" / f"blob-{name}")
        (folder / "snapshot" / name).symlink_to(f"../blobs/blob-{name}")
    return folder / "snapshot" / names[0]


def inline(path: Path) -> Path:
    """The embedding with its table inside."""
    (path.parent / "table.bin").write_bytes(np.arange(ROWS * COLUMNS, dtype=np.float32).tobytes())
    model = onnx.load(embedding(path))
    (path.parent / "table.bin").unlink()
    path.write_bytes(model.SerializeToString())
    return path


def test_a_link_to_a_model_is_the_model(tmp_path: Path) -> None:
    inline(tmp_path / "m.onnx")
    path = cached(tmp_path, "m.onnx")
    hetpart.partition(path, hardware="emulated", placement="all-accelerator").save(tmp_path / "m.hetpart")
    with hetpart.Session(tmp_path / "m.hetpart", emulate=True) as session:
        (found,) = session.run(None, {"ids": np.array([3, 1, 0, 15])})
        assert session.plan.model.name == "m"
    np.testing.assert_array_equal(
        found, np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)[[3, 1, 0, 15]]
    )


def test_a_link_to_a_model_has_its_external_data_beside_it(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "table.bin").write_bytes(bytes(NBYTES))
    embedding(tmp_path / "blob")
    (tmp_path / "snapshot" / "m.onnx").symlink_to("../blob")
    assert load(tmp_path / "snapshot" / "m.onnx").folder == tmp_path / "snapshot"


def test_links_to_external_data_elsewhere_are_refused_with_what_to_copy(tmp_path: Path) -> None:
    # ONNX Runtime follows none of them
    (tmp_path / "table.bin").write_bytes(bytes(NBYTES))
    embedding(tmp_path / "m.onnx")
    said = refusal(cached(tmp_path, "m.onnx", "table.bin"))
    assert f"to {tmp_path / 'blobs' / 'blob-table.bin'}: copy that file in its place" in said


def test_a_link_to_a_model_with_weights_in_both_places_is_refused(tmp_path: Path) -> None:
    model = onnx.load(inline(tmp_path / "m.onnx"))
    other = model.graph.initializer.add(name="other", data_type=1, dims=[ROWS, COLUMNS], data_location=1)
    other.external_data.add(key="location", value="table.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert "only some of its weights lie there" in refusal(cached(tmp_path, "m.onnx"))


KINDS = {
    b"PK\x03\x04" + bytes(100): "it is a zip archive",
    b"\x80\x02}q": "it is a Python pickle",
    b"GGUF\x03": "it is a GGUF file",
    b"\x89HDF\r\n": "it is an HDF5 file",
    b"<!DOCTYPE html>": "it is a web page",
    b'{"a": 1}': "it is JSON",
    b"\x08\x09\x3a\x02\x0a\x05": "it holds no ModelProto",
    b"\x00": "field number 0",
}


@pytest.mark.parametrize(("head", "said"), KINDS.items())
def test_another_kind_of_file_is_told(tmp_path: Path, head: bytes, said: str) -> None:
    (tmp_path / "m.onnx").write_bytes(head)
    assert f"is not an ONNX model: {said}" in refusal(tmp_path / "m.onnx")


def test_a_file_cut_short_says_how_much_is_missing(tmp_path: Path) -> None:
    path = inline(tmp_path / "m.onnx")
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    missing = re.search(f"ends after {size - 1000:,} bytes, and at least ([0-9]+) more belong to it", refusal(path))
    assert missing is not None
    assert 900 < int(missing[1]) <= 1000  # small fields may follow the graph


def test_a_model_in_memory_has_no_folder_to_look_in(tmp_path: Path) -> None:
    (tmp_path / "table.bin").write_bytes(bytes(NBYTES))
    model = onnx.load(embedding(tmp_path / "m.onnx"), load_external_data=False)
    with pytest.raises(InvalidModelError, match="a model in memory has no folder"):
        import_onnx(model)
    assert len(import_onnx(onnx.load(tmp_path / "m.onnx")).graph.ops) == 1


def test_an_onnx_ir_model_is_read_where_its_weights_are(tmp_path: Path) -> None:
    (tmp_path / "table.bin").write_bytes(bytes(NBYTES))
    imported = import_onnx(onnx_ir.load(embedding(tmp_path / "m.onnx")))
    assert imported.folder == tmp_path
    assert imported.graph.weights[0].nbytes == NBYTES


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.onnx")
    path.write_bytes(b"x")
    assert "is not valid UTF-8" in refusal(path)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    path = embedding(tmp_path / "m.onnx")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", fail)
    assert f"m.onnx cannot be read: {error.strerror}" in refusal(path)


def test_bytes_are_no_model() -> None:
    with pytest.raises(InvalidModelError, match=r"not bytes\n  hint: read bytes with"):
        import_onnx(b"")


def test_the_model_that_was_given_stays_as_it_was() -> None:
    model = from_text("""<ir_version: 9, opset_import: ["": 18]> g (float[n] x) => (float[n] y)
        { s = Shape (x)  z = ConstantOfShape (s)  y = Add (x, z) }""")
    before = model.SerializeToString(deterministic=True)
    hetpart.partition(model, shape={"n": 3}, hardware="emulated")
    assert model.SerializeToString(deterministic=True) == before


def cached_bytes(path: Path) -> int:
    """Bytes of the file that lie in memory: whoever read one, by whatever call, left its page there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        pages = -(-len(view) // mmap.PAGESIZE)
        resident = (ctypes.c_ubyte * pages)()
        start = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(view)), resident) == 0
        return int((np.frombuffer(resident, np.uint8) & 1).sum()) * mmap.PAGESIZE


def test_planning_reads_next_to_nothing_of_external_weights(tmp_path: Path) -> None:
    rows = SPARSE_BYTES // (COLUMNS * 4)
    with (tmp_path / "table.bin").open("wb") as file:
        file.truncate(rows * COLUMNS * 4)
    model = hetpart.partition(embedding(tmp_path / "m.onnx", rows), hardware="l4+generic-2core", budget="1GB")
    model.save(tmp_path / "m.hetpart")
    assert model.plan.model.weight_bytes == rows * COLUMNS * 4
    assert cached_bytes(tmp_path / "table.bin") < SPARSE_BYTES / 1000


def test_planning_reads_next_to_nothing_of_weights_in_the_model_file(tmp_path: Path) -> None:
    rows = SPARSE_INLINE_BYTES // (COLUMNS * 4)
    path = tmp_path / "m.onnx"
    _write_sparse_inline(path, rows)
    model = hetpart.partition(path, hardware="l4+generic-2core", budget="1GB")
    model.save(tmp_path / "m.hetpart")
    assert model.plan.model.weight_bytes == rows * COLUMNS * 4
    assert cached_bytes(path) < SPARSE_INLINE_BYTES / 1000


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def _write_sparse_inline(path: Path, rows: int) -> None:
    """The embedding with its table in the message itself, as a hole in the file."""
    nbytes = rows * COLUMNS * 4
    table = onnx.TensorProto(name="table", data_type=1, dims=[rows, COLUMNS]).SerializeToString()
    table += b"\x4a" + _varint(nbytes)  # raw_data
    model = from_text("""<ir_version: 9, opset_import: ["": 18]> embedding (int64[4] ids) => (float[4, 256] y)
        { y = Gather (table, ids) }""")
    graph = model.graph.SerializeToString() + b"\x2a" + _varint(len(table) + nbytes) + table
    model.ClearField("graph")
    head = model.SerializeToString() + b"\x3a" + _varint(len(graph) + nbytes) + graph
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + nbytes)


def test_an_inline_weight_is_the_same_weight(tmp_path: Path) -> None:
    (tmp_path / "table.bin").write_bytes(np.arange(ROWS * COLUMNS, dtype=np.float32).tobytes())
    model = onnx.load(embedding(tmp_path / "external.onnx"))
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    (tmp_path / "inline.onnx").write_bytes(model.SerializeToString())
    ids = np.array([3, 1, 0, 15])
    results = []
    for name in ("external", "inline"):
        with hetpart.partition(tmp_path / f"{name}.onnx", hardware="emulated").session(emulate=True) as session:
            results += session.run(None, {"ids": ids})
    np.testing.assert_array_equal(results[0], np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)[ids])
    np.testing.assert_array_equal(results[0], results[1])


def test_a_model_that_was_read_before_stays_as_it_is(tmp_path: Path) -> None:
    loaded = read(embedding(tmp_path / "m.onnx"))
    (tmp_path / "table.bin").write_bytes(bytes(NBYTES))
    loaded.proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "nobody reads it"))
    before = loaded.proto.SerializeToString(deterministic=True)
    graph = import_onnx(loaded).graph
    assert loaded.proto.SerializeToString(deterministic=True) == before
    assert [value.name for value in graph.values] == ["ids", "table", "y"]


def test_an_unread_weight_that_is_an_input_is_no_input_to_feed() -> None:
    model = from_text("""<ir_version: 9, opset_import: ["": 18]> g (float[2] x, float[3] w) => (float[2] y)
        { y = Neg (x) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    imported = import_onnx(model)
    assert [value.name for value in imported.proto.graph.input] == ["x"]
