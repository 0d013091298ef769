"""``wire.skeleton`` against protobuf: the same model, its large tensors left where they lie in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from hetpart.graph.walk import all_tensors
from hetpart.graph.wire import INLINE_LIMIT, WireError, skeleton

PAYLOADS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
RELAXED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

STORES = st.sampled_from(["raw", "float_data", "double_data", "int64_data", "int32_data"])
DTYPES = {
    "raw": np.float32, "float_data": np.float32, "double_data": np.float64, "int64_data": np.int64,
    "int32_data": np.int32,
}  # fmt: skip
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([511, 512, 513, 1023, 1024, 1025, 5000]))


def tensor(name: str, store: str, size: int, seed: int = 0) -> onnx.TensorProto:
    content = (np.random.default_rng(seed).standard_normal(size) * 1e6).astype(DTYPES[store])
    if store == "raw":
        return numpy_helper.from_array(content, name)
    made = onnx.TensorProto(name=name, dims=[size], data_type=helper.np_dtype_to_tensor_dtype(content.dtype))
    getattr(made, store).extend(content.tolist())
    return made


def weight_everywhere(store: str, size: int) -> onnx.ModelProto:
    """A model with a tensor in every place that can hold one."""
    body = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=tensor("", store, size, 1))],
        "body", [], [onnx.ValueInfoProto(name="c")], [tensor("b", store, size, 2)],
    )  # fmt: skip
    sparse = onnx.SparseTensorProto(values=tensor("s", store, size, 3), dims=[1])
    sparse.indices.CopyFrom(tensor("i", store, size, 4))
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensor("", store, size, 5), name="k"),
        helper.make_node("Constant", [], ["l"], sparse_value=sparse),
        helper.make_node("If", ["k"], ["o"], then_branch=body, else_branch=body),
    ]
    function = helper.make_function("own", "F", [], ["f"], [nodes[0]], [helper.make_opsetid("", 18)])
    graph = helper.make_graph(nodes, "g", [], [], [tensor("w", store, size, 6)], sparse_initializer=[sparse])
    return helper.make_model(graph, functions=[function], producer_name="p" * size)


def read_back(path: Path) -> onnx.ModelProto:
    """The skeleton of ``path`` with every reference replaced by the bytes it refers to."""
    model = onnx.ModelProto.FromString(skeleton(path))
    for held in all_tensors(model):
        if held.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in held.external_data}
            assert entries["location"] == path.name
            with path.open("rb") as file:
                file.seek(int(entries["offset"]))
                held.raw_data = file.read(int(entries["length"]))
            del held.external_data[:]
            held.ClearField("data_location")
    return model


def as_raw(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the large tensors that a file can hold in a row stored as raw data."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for held in all_tensors(made):
        for name in ("float_data", "double_data"):
            content = numpy_helper.to_array(held)
            if getattr(held, name) and content.nbytes > INLINE_LIMIT:
                held.ClearField(name)
                held.raw_data = content.tobytes()
    return made


@RELAXED
@given(STORES, SIZES)
def test_reading_the_references_back_gives_the_model(tmp_path: Path, store: str, size: int) -> None:
    model = weight_everywhere(store, size)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert read_back(path) == as_raw(model)


@pytest.mark.parametrize("store", ["raw", "float_data", "double_data"])
def test_no_large_tensor_is_in_the_skeleton(tmp_path: Path, store: str) -> None:
    path = tmp_path / "m.onnx"
    lengths = set[int]()
    for size in (100_000, 200_000):
        model = weight_everywhere(store, size)
        model.producer_name = ""
        path.write_bytes(model.SerializeToString())
        lengths.add(len(skeleton(path)))
    assert max(lengths) < 2000
    assert max(lengths) - min(lengths) < 100  # the digits of an offset


def test_a_small_tensor_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(weight_everywhere("raw", INLINE_LIMIT // 4).SerializeToString())
    assert skeleton(path) == path.read_bytes()


def test_attributes_that_are_no_constants_stay(tmp_path: Path) -> None:
    # ONNX Runtime reads external data of initializers and Constant nodes alone
    node = helper.make_node("Own", [], ["y"], domain="own", value=tensor("", "raw", 5000))
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString())
    assert skeleton(path) == path.read_bytes()


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def delimited(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def in_model(initializer: bytes) -> bytes:
    return delimited(7, delimited(5, initializer))


@pytest.mark.parametrize("chunks", [1, 2, 2000])
def test_packed_data_in_several_chunks_is_the_same_tensor(tmp_path: Path, chunks: int) -> None:
    content = np.arange(6000, dtype=np.float32)
    parts = b"".join(delimited(4, part.tobytes()) for part in np.array_split(content, chunks))
    path = tmp_path / "m.onnx"
    path.write_bytes(in_model(b"\x08" + varint(6000) + b"\x10\x01" + parts))
    (expected,) = onnx.load(path).graph.initializer
    (found,) = read_back(path).graph.initializer
    assert list(expected.float_data) == content.tolist()
    kept = np.array(found.float_data, np.float32)
    np.testing.assert_array_equal(np.frombuffer(found.raw_data, np.float32) if chunks == 1 else kept, content)


@pytest.mark.parametrize("location", [onnx.TensorProto.DEFAULT, onnx.TensorProto.EXTERNAL])
def test_a_location_that_is_spelt_out_is_heeded(tmp_path: Path, location: int) -> None:
    # onnx.load() of external data leaves DEFAULT behind, in a field after the bytes
    held = tensor("w", "raw", 5000)
    held.data_location = location
    if location == onnx.TensorProto.EXTERNAL:
        held.external_data.add(key="location", value="elsewhere")
    path = tmp_path / "m.onnx"
    path.write_bytes(in_model(held.SerializeToString()))
    (kept,) = onnx.ModelProto.FromString(skeleton(path)).graph.initializer
    places = [entry.value for entry in kept.external_data if entry.key == "location"]
    assert (kept.data_location, places) == (onnx.TensorProto.EXTERNAL, ["elsewhere" if location else "m.onnx"])
    assert bool(kept.raw_data) == (location == onnx.TensorProto.EXTERNAL)


def test_unpacked_data_stays_in_the_message(tmp_path: Path) -> None:
    content = np.arange(3000, dtype=np.float32)
    elements = b"".join(b"\x25" + element.tobytes() for element in content)
    path = tmp_path / "m.onnx"
    path.write_bytes(in_model(b"\x08" + varint(3000) + b"\x10\x01" + elements))
    assert onnx.ModelProto.FromString(skeleton(path)) == onnx.load(path)
    assert len(onnx.load(path).graph.initializer[0].float_data) == 3000


def test_fields_of_a_later_standard_survive(tmp_path: Path) -> None:
    unknown = varint(900 << 3) + b"\x05" + varint(901 << 3 | 1) + b"\1" * 8 + varint(902 << 3 | 5) + b"\2" * 4
    path = tmp_path / "m.onnx"
    path.write_bytes(weight_everywhere("raw", 10).SerializeToString() + unknown + delimited(903, b"\3" * 5000))
    assert skeleton(path) == path.read_bytes()


@pytest.mark.parametrize("size", [4, 1500])
def test_a_file_cut_off_anywhere_is_what_protobuf_says_it_is(tmp_path: Path, size: int) -> None:
    whole = weight_everywhere("raw", size).SerializeToString()
    path = tmp_path / "m.onnx"
    refused = 0
    for length in range(0, len(whole), 1 if size < 10 else 37):
        path.write_bytes(whole[:length])
        try:
            onnx.ModelProto.FromString(whole[:length])
        except DecodeError:
            refused += 1
            with pytest.raises((WireError, DecodeError)):
                onnx.ModelProto.FromString(skeleton(path))
        else:
            if length:
                onnx.ModelProto.FromString(skeleton(path))
    assert refused > 100


def test_an_empty_file_is_a_wire_error(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    with pytest.raises(WireError, match="empty"):
        skeleton(tmp_path / "m.onnx")


def test_a_length_beyond_the_end_is_told_with_its_place(tmp_path: Path) -> None:
    whole = weight_everywhere("raw", 5000).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(whole[:-1000])
    with pytest.raises(WireError, match=r"needs 1000 bytes more than there are at byte \d+"):
        skeleton(tmp_path / "m.onnx")


def test_messages_nested_too_deep_are_a_wire_error(tmp_path: Path) -> None:
    inner = bytes(INLINE_LIMIT + 1)
    for _ in range(120):
        inner = delimited(1, delimited(5, delimited(6, inner)))
    (tmp_path / "m.onnx").write_bytes(delimited(7, inner))
    with pytest.raises(WireError, match="deep"):
        skeleton(tmp_path / "m.onnx")


@RELAXED
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_wire_error_or_what_they_were(tmp_path: Path, data: bytes, graph: bool) -> None:
    # a graph that is long enough to be looked into
    content = delimited(7, data + delimited(10, bytes(INLINE_LIMIT))) if graph else data
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    try:
        assert onnx.ModelProto.FromString(skeleton(path)) == onnx.ModelProto.FromString(content)
    except (WireError, DecodeError):
        if content:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(content)
