"""Small models as text, cut where a test says, beside ONNX Runtime on the uncut model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

import hetpart
from hetpart.partitioned import PartitionedModel


def model(graph: str, *, opset: int = 21, ir: int = 10) -> onnx.ModelProto:
    """The model whose graph is ``graph``, in ONNX's textual syntax."""
    return parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> {graph}')


def plain(proto: onnx.ModelProto, *, optimize: bool = False) -> onnxruntime.InferenceSession:
    """One ONNX Runtime session of the whole model on the CPU."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # With it, 1.31 plans some drawn models so that they fail with "Shape mismatch attempting to re-use buffer".
    options.enable_mem_reuse = False
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )


def placed(proto: onnx.ModelProto, accelerated: Iterable[str], *, hardware: str = "emulated") -> PartitionedModel:
    """``proto`` with the nodes named in ``accelerated`` on the accelerator and all others on the host.

    Nodes that compute from weights alone, and are not returned, are no ops: they have no place.
    """
    there = set(accelerated)
    weights = {tensor.name for tensor in proto.graph.initializer}
    returned = {value.name for value in proto.graph.output}
    names = [
        node.name
        for node in proto.graph.node
        if not node.input or not weights.issuperset(node.input) or not returned.isdisjoint(node.output)
    ]
    assert there <= set(names)
    pins = [f"node:{name}={'cuda' if name in there else 'cpu'}" for name in names]
    return hetpart.partition(proto, hardware=hardware, pin=pins)


def cut(
    proto: onnx.ModelProto, accelerated: Iterable[str], *, hardware: str = "emulated", **options: Any
) -> hetpart.Session:
    """A session of ``placed``, run without ONNX Runtime's optimisations."""
    bundle = placed(proto, accelerated, hardware=hardware).bundle()
    return hetpart.Session(bundle, emulate=True, optimize=False, threads=1, **options)


def assert_same(ours: Sequence[Any], uncut: Sequence[Any]) -> None:
    """The same objects: kinds, dtypes, shapes and every bit."""
    assert len(ours) == len(uncut)
    for mine, theirs in zip(ours, uncut, strict=True):
        if isinstance(theirs, list):
            assert isinstance(mine, list)
            assert_same(mine, theirs)
        elif isinstance(theirs, np.ndarray):
            assert isinstance(mine, np.ndarray)
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            assert mine.tolist() == theirs.tolist() if mine.dtype == object else mine.tobytes() == theirs.tobytes()
        else:
            assert type(mine) is type(theirs)
            assert mine == theirs
