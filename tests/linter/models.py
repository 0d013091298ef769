"""Pairs of small models: one that breaks a rule, and one that does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.models import model

Made = onnx.ModelProto | Path
Make = Callable[[Path], Made]
Asked = tuple[Made, Mapping[str, Any]]
"""A model, and the options that it is linted with."""
Options = Mapping[str, Any] | Callable[[Made], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models, and how they are linted."""

    bad: Make
    good: Make
    options: Options = field(default_factory=dict[str, Any])
    good_options: Options | None = None

    def asked_of_bad(self, folder: Path) -> Asked:
        return _asked(self.bad(folder), self.options)

    def asked_of_good(self, folder: Path) -> Asked:
        return _asked(self.good(folder), self.options if self.good_options is None else self.good_options)


def _asked(made: Made, options: Options) -> Asked:
    return made, options(made) if callable(options) else options


def text(graph: str, *, opset: int = 21) -> Make:
    """A model in ONNX's textual syntax."""
    return lambda _: model(graph, opset=opset)


def weighted(graph: str, **weights: np.ndarray[Any, Any]) -> Make:
    """The same with initializers."""

    def make(_: Path) -> onnx.ModelProto:
        proto = model(graph)
        proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
        return proto

    return make


def external(*, written: bytes | None) -> Make:
    """A model with a weight of 4 KiB in a file beside it, which holds ``written``."""

    def make(folder: Path) -> Path:
        proto = model("g (float[1024] x) => (float[1024] y) { y = Add (x, w) }")
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1024], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="w.bin")
        proto.graph.initializer.append(tensor)
        if written is not None:
            (folder / "w.bin").write_bytes(written)
        (folder / "m.onnx").write_bytes(proto.SerializeToString())
        return folder / "m.onnx"

    return make


def unnamed(_: Path) -> onnx.ModelProto:
    node = helper.make_node("Neg", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    return helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))


def looped(elements: int) -> Make:
    """A loop with a weight of so many floats inside."""

    def make(_: Path) -> onnx.ModelProto:
        body = helper.make_graph(
            [helper.make_node("MatMul", ["h", "w"], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
            "body",
            [
                helper.make_tensor_value_info("i", TensorProto.INT64, []),
                helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, elements]),
            ],
            [
                helper.make_tensor_value_info("on", TensorProto.BOOL, []),
                helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, elements]),
            ],
        )
        proto = model(f"g (int64 n, bool c, float[1,{elements}] x) => (float[1,{elements}] y) {{ y = Identity (x) }}")
        del proto.graph.node[:]
        proto.graph.node.append(helper.make_node("Loop", ["n", "c", "x"], ["y"], name="loop", body=body))
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros((elements, elements), np.float32), "w"))
        return proto

    return make


def renamed(graph: str) -> Make:
    """Its second node called as the first."""

    def make(_: Path) -> onnx.ModelProto:
        proto = model(graph)
        proto.graph.node[1].name = proto.graph.node[0].name
        return proto

    return make


def ignoring(entry: str) -> Make:
    """A model whose second node says that ``entry`` is not to be reported of it."""

    def make(_: Path) -> onnx.ModelProto:
        proto = model(CHAIN)
        proto.graph.node[1].metadata_props.add(key="hetpart.ignore", value=entry)
        return proto

    return make


def redeclared(shape: list[int]) -> Make:
    """A model that declares ``shape`` for a value of two floats."""

    def make(_: Path) -> onnx.ModelProto:
        proto = model("g (float[2] x) => (float[2] y) { [a] h = Neg (x) [b] y = Neg (h) }")
        proto.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, shape))
        return proto

    return make


RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal((600, 600)).astype(np.float32)
OTHER = RNG.standard_normal((600, 600)).astype(np.float32)
TWICE = "g (float[1,600] x) => (float[1,600] y) { [a] h = MatMul (x, v) [b] y = MatMul (h, w) }"
CHAIN = "g (float[2] x) => (float[2] y) { [a] h = Neg (x) [b] y = Abs (h) }"
CUSTOM = '<ir_version: 9, opset_import: ["": 21, "com.example": 1]> '
DOUBLE = "g (double[4096] x) => (double[4096] y) { [a] y = Exp (x) }"
SINGLE = "g (float[4096] x) => (float[4096] y) { [a] y = Exp (x) }"
EPSILON = "g (float[2] x) => (float[2] y) { [a] e = Constant <value_float = %s> () [b] y = Add (x, e) }"
INDICES = "g (float[9] x) => (float[16384] y) { [a] y = Gather (x, at) }"
L4: Mapping[str, Any] = {"hardware": "l4+epyc"}


def custom(declared: str) -> Make:
    """A custom op whose result has a declared shape, or none."""
    graph = f"g (float[2] x) => (float[2] y) {declared} {{ [a] h = com.example.Decode (x) [b] y = Abs (h) }}"
    return lambda _: onnx.parser.parse_model(CUSTOM + graph)


PAIRS: Mapping[str, Pair] = {
    "unnamed-node": Pair(unnamed, text(CHAIN)),
    "duplicate-node-name": Pair(renamed(CHAIN), text(CHAIN)),
    "dead-node": Pair(
        text("g (float[2] x) => (float[2] y) { [a] y = Neg (x) [b] h = Abs (x) [c] i = Exp (h) }"), text(CHAIN)
    ),
    "unused-initializer": Pair(
        weighted("g (float[2] x) => (float[2] y) { [a] y = Neg (x) }", w=np.ones(2, np.float32)),
        weighted("g (float[2] x) => (float[2] y) { [a] y = Add (x, w) }", w=np.ones(2, np.float32)),
    ),
    "outdated-opset": Pair(text(CHAIN, opset=6), text(CHAIN, opset=7)),
    "external-data-missing": Pair(external(written=None), external(written=bytes(4096))),
    "git-lfs-pointer": Pair(
        external(written=b"version https://git-lfs.github.com/spec/v1\n"), external(written=bytes(4096))
    ),
    "unfolded-constant": Pair(
        weighted(
            "g (float[1,600] x) => (float[1,600] y) { [a] t = Transpose (w) [b] y = MatMul (x, t) }", w=NOISE
        ),
        weighted("g (float[1,600] x) => (float[1,600] y) { [b] y = MatMul (x, w) }", w=NOISE),
    ),
    "duplicate-initializer-content": Pair(weighted(TWICE, v=NOISE, w=NOISE), weighted(TWICE, v=NOISE, w=OTHER)),
    "illegal-graph": Pair(
        text("g (float[2] x) => (float[2] y) { [a] y = Neg (nowhere) }"), text(CHAIN)
    ),
    "unknown-rule-ignored": Pair(ignoring("HPG003,dead_node"), ignoring("HPG003,dead-node,HPM,ALL")),
    "unknown-shape": Pair(custom(""), custom("<float[2] h>")),
    "unbound-dimension": Pair(
        text("g (float[n] x) => (float[n] y) { [a] y = Neg (x) }"),
        text("g (float[n] x) => (float[n] y) { [a] y = Neg (x) }"),
        good_options={"shape": "n=2"},
    ),
    "shape-conflict": Pair(redeclared([3]), redeclared([2])),
    "float64-compute": Pair(text(DOUBLE), text(SINGLE)),
    "dynamic-shape-blocks-plan": Pair(
        text("g (float[2] x) => (int64[1,m] y) { [a] y = NonZero (x) }"), text(CHAIN)
    ),
    "int64-where-int32-serves": Pair(
        weighted(INDICES, at=np.arange(16384) % 9), weighted(INDICES, at=(np.arange(16384) % 9).astype(np.int32))
    ),
    "constant-near-exporter-epsilon": Pair(text(EPSILON % "1e-8"), text(EPSILON % "1e-3")),
    "half-precision-overflow-constant": Pair(
        weighted("g (float16[2] x) => (float16[2] y) { [a] y = Add (x, w) }", w=np.array([-np.inf, 0], np.float16)),
        weighted("g (float16[2] x) => (float16[2] y) { [a] y = Add (x, w) }", w=np.array([-65504, 0], np.float16)),
    ),
    "no-kernel-for-device": Pair(
        text("g (string[2] x) => (string[2] y) { [a] y = Identity (x) }"), text(CHAIN), L4
    ),
    "no-cost-formula": Pair(custom("<float[2] h>"), text(CHAIN)),
    "unsplittable-control-flow": Pair(looped(4200), looped(64)),
    "pin-matches-nothing": Pair(
        text(CHAIN), text(CHAIN), L4 | {"pin": "layer.*=cpu"}, L4 | {"pin": "a=cpu"}
    ),
    "budget-exceeded": Pair(
        weighted(TWICE, v=NOISE, w=OTHER), weighted(TWICE, v=NOISE, w=OTHER),
        L4 | {"budget": "1MB", "pin": "*=cuda:0"}, L4 | {"budget": "1GB", "pin": "*=cuda:0"},
    ),
    "value-larger-than-budget": Pair(
        weighted(TWICE, v=NOISE, w=OTHER), weighted(TWICE, v=NOISE, w=OTHER), L4 | {"budget": "1MB"},
        L4 | {"budget": "1GB"},
    ),
}  # fmt: skip
"""By rule; those of plans stand in ``plan_models.py``."""
