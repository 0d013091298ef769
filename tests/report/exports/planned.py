"""A small model with hostile names, cut several times, and its bundle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import onnx

import hetpart
from tests.runtime.models import model, placed

HOSTILE = 'a"b\\n\\N</script>{x|y}<i>'
"""What ends a string, a label or a script where it is not escaped."""
NET = model("""net (float[8,64] x, float[64,64] w, bool go) => (float[8,64] z, float[8,64] s) {
    [first] a = MatMul (x, w)
    [relu] b = Relu (a)
    [turned] t = Transpose (w)
    [second] c = MatMul (b, w)
    [branch] d = If (go) <
        then_branch = yes () => (float[8,64] y) { [inner] y = Add (b, c) },
        else_branch = no () => (float[8,64] n) { n = Relu (c) } >
    [last] z = Tanh (d)
    [side] s = Add (b, z)
}""")
HOST = {"relu", "branch"}


@cache
def partitioned() -> hetpart.PartitionedModel:
    """``NET`` with a weight, an op of a hostile name, and several crossings between devices."""
    proto = onnx.ModelProto()
    proto.CopyFrom(NET)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(_weight(), "w"))
    del proto.graph.input[1]
    for node in proto.graph.node:
        node.name = HOSTILE if node.name == "second" else node.name
    names = [node.name for node in proto.graph.node if node.name not in HOST | {"turned"}]
    return placed(proto, names)


def _weight() -> object:
    import numpy as np

    return np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)


def bundle(folder: Path) -> Path:
    """Its bundle in ``folder``."""
    return partitioned().save(folder / "net.hetpart")
