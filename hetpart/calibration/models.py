# pyright: reportUnknownMemberType=false
"""Models of a few nodes, in which one kernel does nearly all of the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
IR_VERSION = 10
CONTRIB = "com.microsoft"
Shape = Sequence[int]
_FLOAT, _INTEGER = TensorProto.FLOAT, TensorProto.INT64


_PATTERN = np.random.default_rng(0).uniform(0.01, 0.1, 4096).astype(np.float32)
"""Positive and of one magnitude: no op turns them into NaN or into denormal numbers, which take ten times as long."""


def numbers(*shape: int) -> NDArray[np.float32]:
    """An array of ordinary numbers."""
    return np.resize(_PATTERN, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    weights: Mapping[str, NDArray[Any]] | None = None,
    *,
    integers: Sequence[str] = (),
    dtypes: tuple[int, int] = (_FLOAT, _FLOAT),
) -> bytes:
    """A model whose inputs and outputs are of ``dtypes``, save the inputs named in ``integers``, which are int64."""
    graph = helper.make_graph(
        list(nodes),
        "probe",
        [_value(name, shape, _INTEGER if name in integers else dtypes[0]) for name, shape in inputs.items()],
        [_value(name, shape, dtypes[1]) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()


def _value(name: str, shape: Shape, dtype: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, list(shape))


def chain(
    op_type: str, length: int, others: Sequence[str] = (), domain: str = "", **attributes: Any
) -> list[onnx.NodeProto]:
    """``length`` nodes, each on what the one before it makes: from ``v0`` to ``v<length>``."""
    return [
        helper.make_node(op_type, [f"v{i}", *others], [f"v{i + 1}"], name=f"n{i}", domain=domain, **attributes)
        for i in range(length)
    ]
