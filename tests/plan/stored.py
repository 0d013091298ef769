"""A model on disk whose weights lie in every way the format allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ELEMENTS = 2000
ACCELERATED = ("n1", "n3", "n5")
FEED = {"x": np.linspace(-1, 1, ELEMENTS, dtype=np.float32)}
EXTERNAL = {
    "aligned": ("first.bin", 0),
    "odd": ("first.bin", 8003),
    "in a subfolder": ("sub folder/second 'file'.bin", 5),
    "shares bytes": ("first.bin", 4000),
}
"""File and offset of the weights that lie outside the model's file."""


def write_model(folder: Path, name: str = "model.onnx") -> Path:
    """Add every weight to ``x`` in turn: external ones, one inside the model's file, one so small it stays inline."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_files(folder)
    inline = np.random.default_rng(9).standard_normal(ELEMENTS).astype(np.float32)
    weights = [_external(key, *place) for key, place in EXTERNAL.items()]
    weights += [numpy_helper.from_array(inline, "inside"), helper.make_tensor("small", TensorProto.FLOAT, [1], [0.5])]
    nodes = [
        helper.make_node("Add", [f"v{i - 1}" if i else "x", weight.name], [f"v{i}"], name=f"n{i}")
        for i, weight in enumerate(weights)
    ]
    info = [
        helper.make_tensor_value_info(value, TensorProto.FLOAT, [ELEMENTS]) for value in ("x", f"v{len(nodes) - 1}")
    ]
    graph = helper.make_graph(nodes, "stored", info[:1], info[1:], weights)
    path = folder / name
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    )
    return path


def _write_files(folder: Path) -> None:
    rng = np.random.default_rng(7)
    for name in {file for file, _ in EXTERNAL.values()}:
        (folder / name).parent.mkdir(exist_ok=True)
        # Floats at any offset: no NaN has this exponent.
        (folder / name).write_bytes((rng.integers(0, 4, 30_000) + 0x3C).astype(np.uint8).tobytes())


def _external(name: str, file: str, offset: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[ELEMENTS])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", offset), ("length", 4 * ELEMENTS)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def expected(path: Path) -> np.ndarray:
    """The model's result by ``onnx``'s own loader and NumPy."""
    total = FEED["x"]
    for tensor in onnx.load(path).graph.initializer:
        total = total + numpy_helper.to_array(tensor)
    return total
