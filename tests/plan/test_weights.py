"""Weights that lie outside a model are found wherever they are referred to, and gathered bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.external_data_helper
import pytest
from onnx import TensorProto, helper, numpy_helper

from hetpart.plan import weights
from hetpart.plan.weights import GATHERED_FILE, external_tensors, gather_weights, reference_of, weight_files

BYTES = bytes(range(256)) * 40


def tensor(name: str, dims: list[int], dtype: int, **entries: Any) -> TensorProto:
    made = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


def everywhere() -> onnx.ModelProto:
    """External tensors as an initializer, a constant, and both again inside a branch of a branch; one inline."""
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["k"], value=tensor("k", [3], TensorProto.INT8, location="b", offset=1))],
        "inner", [], [helper.make_empty_tensor_value_info("k")],
        [tensor("i", [5], TensorProto.INT4, location="b", offset=7, length=3)],
    )  # fmt: skip
    outer = helper.make_graph(
        [helper.make_node("If", ["c"], ["r"], then_branch=inner, else_branch=inner)],
        "outer", [], [helper.make_empty_tensor_value_info("r")],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["c"], value=tensor("c", [], TensorProto.BOOL, location="a", offset=9)),
            helper.make_node("If", ["c"], ["z"], then_branch=outer, else_branch=outer),
        ],
        "g", [], [helper.make_empty_tensor_value_info("z")],
        [
            tensor("w", [100], TensorProto.FLOAT, location="a", offset=13, length=400),
            tensor("no length", [2, 3], TensorProto.FLOAT16, location="a", offset=4096),
            tensor("no offset", [4], TensorProto.DOUBLE, location="a"),
            tensor("nothing", [0, 4], TensorProto.FLOAT, location="empty", offset=0, length=0),
            numpy_helper.from_array(np.ones(3), "inline"),
        ],
    )  # fmt: skip
    return helper.make_model(graph)


EXTERNAL = ["w", "no length", "no offset", "nothing", "c", *["i", "k"] * 4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (("a", BYTES), ("b", BYTES[::-1]), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_tensors_are_found_wherever_they_are() -> None:
    assert [tensor.name for tensor in external_tensors([everywhere()])] == EXTERNAL


def test_files_are_named_once_in_order(folder: Path) -> None:
    found = weight_files([everywhere(), everywhere()], folder)
    assert [(file.path, file.nbytes, file.full_digest) for file in found] == [
        ("a", 10240, ""), ("b", 10240, ""), ("empty", 0, "")
    ]  # fmt: skip


@pytest.mark.parametrize("chunk", [7, 4096, 2**24])
def test_gathered_tensors_are_what_they_were(folder: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``onnx``'s own loader reads them."""
    monkeypatch.setattr(weights, "_CHUNK", chunk)
    models, target = [everywhere(), everywhere()], folder / "target"
    target.mkdir()
    originals = [_content(tensor, folder) for model in models for tensor in external_tensors([model])]
    gather_weights(models, folder, target)
    assert [_content(tensor, target) for model in models for tensor in external_tensors([model])] == originals
    assert {reference_of(tensor)["location"] for tensor in external_tensors(models)} == {GATHERED_FILE}
    assert (target / GATHERED_FILE).stat().st_size <= 4096 * 6 + 3


def _content(tensor: TensorProto, folder: Path) -> bytes:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    if "length" not in reference_of(copy):  # without one `onnx` reads to the end of the file
        elements = int(np.prod(copy.dims)) * {TensorProto.FLOAT16: 2, TensorProto.DOUBLE: 8}.get(copy.data_type, 1)
        copy.external_data.add(key="length", value=str(elements))
    onnx.external_data_helper.load_external_data_for_tensor(copy, str(folder))
    return copy.raw_data
