"""From nodes to the Graph: attributes, scopes, index ranges, and the view that networkx gets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import networkx
import numpy as np
import onnx
import pytest
from onnx import helper, version_converter
from onnxruntime.capi import onnxruntime_pybind11_state as state

from benchmarks import zoo
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.provenance import scope_of
from tests.graph.models import assert_read_as_it_is, from_text

HEAD = """<ir_version: 9, opset_import: ["": 18]> g"""


@pytest.mark.parametrize(
    ("name", "recorded", "scope"),
    [
        ("/encoder/layer.0/attention/MatMul", None, "encoder.layer.0.attention"),
        ("/MatMul", None, ""),
        ("MatMul_3", None, ""),
        ("encoder/MatMul", None, ""),
        ("", None, ""),
        ("node_1", "['', 'encoder', 'encoder.layer.0', 'view_1']", "encoder.layer.0"),
        ("node_1", "['', 'view_1']", ""),
        ("node_1", "['view_1']", ""),
        ("/a/b", "not a list", ""),
        ("/a/b", "[1, 2, 3]", "2"),
        ("/a/b", "__import__('os').abort()", ""),
        ("/a/b", "[" * 5000, ""),
    ],
)
def test_scope_is_what_the_exporter_recorded(name: str, recorded: str | None, scope: str) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["c"], name=name)
    if recorded is not None:
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=recorded)
    assert scope_of(node) == scope


def test_scopes_of_a_torch_export_are_its_modules(zoo_model: Callable[[str], Path]) -> None:
    graph = import_onnx(zoo_model("bert-tiny"), zoo.ZOO["bert-tiny"].shape).graph
    scopes = {op.scope for op in graph.ops}
    for layer in range(2):
        assert any(f"encoder.layer.{layer}.attention" in scope for scope in scopes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wide-and-deep-tiny", {"ids": 5_000}),
        ("dlrm-tiny", {"ids": 3}),
        ("bert-tiny", {"input_ids": 1_000}),
        ("whisper-tiny", {"decoder_input_ids": 1_000}),
    ],
)
def test_index_ranges_of_the_zoo(zoo_model: Callable[[str], Path], name: str, expected: dict[str, int]) -> None:
    found = import_onnx(zoo_model(name), zoo.ZOO[name].shape).graph.index_ranges
    assert {key: found.get(key) for key in expected} == expected


RANGES = {
    "directly": ("y = Gather (table, ids)", {"ids": 9}),
    "along another axis": ("y = Gather <axis = 1> (table, ids)", {"ids": 4}),
    "through shape changes": ("r = Reshape (ids, flat)  c = Cast <to = 6> (r)  y = Gather (table, c)", {"ids": 9}),
    "the smaller of two tables": (
        "a = Gather (table, ids)  b = Gather (small, ids)  y = Concat <axis = 0> (a, b)", {"ids": 5}),
    "through arithmetic, which changes them": ("s = Add (ids, flat)  y = Gather (table, s)", {}),
    "as a length": ("c = Cast <to = 1> (ids)  y = Add (c, c)", {}),
    "through a table of ids": ("r = Gather (ids, zero)  y = Gather (table, r)", {"ids": 9}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), RANGES.values(), ids=RANGES)
def test_an_index_stays_within_the_table_it_reaches(body: str, expected: dict[str, int]) -> None:
    text = f"""{HEAD} (int64[2] ids) => (float[a, b] y)
        <float[9, 4] table, float[5, 4] small, int64[1] flat = {{-1}}, int64[1] zero = {{0}}> {{ {body} }}"""
    assert import_onnx(from_text(text)).graph.index_ranges == expected


def test_attributes_are_numbers_and_text() -> None:
    text = f"""{HEAD} (float[1, 1, 8, 8] x) => (float[1, 1, a, b] y) <float[1, 1, 3, 3] w>
        {{ y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2], group = 1> (x, w) }}"""
    (op,) = import_onnx(from_text(text)).graph.ops
    assert op.attributes == {"auto_pad": "SAME_UPPER", "strides": (2, 2), "group": 1}
    assert (op.version, op.domain) == (18, "")


def test_the_standard_domain_has_one_name() -> None:
    model = from_text(f"{HEAD} (float[2] x) => (float[2] y) {{ k = Constant <value_float = 1.0> ()  y = Add (x, k) }}")
    for node in model.graph.node:
        node.domain = "ai.onnx"
    assert [op.domain for op in assert_read_as_it_is(model, {"x": np.ones(2, np.float32)}).graph.ops] == [""]
    model.opset_import[0].domain = "ai.onnx"
    assert import_onnx(model).graph.opset == 18


def test_the_view_has_an_op_per_node_and_a_use_per_edge(zoo_model: Callable[[str], Path]) -> None:
    for name in ("bert-tiny", "moe-tiny", "control-flow-tiny"):
        graph = import_onnx(zoo_model(name), zoo.ZOO[name].shape).graph
        view = graph.to_networkx()
        assert list(view.nodes) == [op.name for op in graph.ops]
        assert networkx.is_directed_acyclic_graph(view)
        made = {result: op.name for op in graph.ops for result in op.results}
        uses = [
            (made[value], op.name, graph.values[value].name) for op in graph.ops for value in op.uses if value in made
        ]
        assert sorted(uses) == sorted((a, b, facts["value"]) for a, b, facts in view.edges(data=True))
        sizes = {value.name: (value.nbytes, value.dtype, value.shape) for value in graph.values}
        assert all((f["nbytes"], f["dtype"], f["shape"]) == sizes[f["value"]] for _, _, f in view.edges(data=True))


def test_the_view_tells_what_an_op_is() -> None:
    model = from_text(f"{HEAD} (float[2] x) => (float[2] y) {{ r = Relu (x)  y = Add (r, r) }}")
    for node, name in zip(model.graph.node, ("/a/b/Relu", "/a/Add"), strict=True):
        node.name = name
    view = import_onnx(model).graph.to_networkx()
    assert dict(view.nodes["/a/b/Relu"]) == {"op_type": "Relu", "domain": "", "scope": "a.b"}
    ((source, target, facts),) = view.edges(data=True)  # a value that is read twice is one use
    assert (source, target, facts["value"], facts["nbytes"]) == ("/a/b/Relu", "/a/Add", "r", 8)


OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
CONVERTED = """<ir_version: 8, opset_import: ["": 7]> g (float[n, 3, 8, 8] x) => (float[n, k] y)
    <float[4, 3, 3, 3] w, float[4] b, float[64, 5] m, float[5] c>
    { v = Conv <pads = [1, 1, 1, 1], kernel_shape = [3, 3]> (x, w, b)  r = Relu (v)
      p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)  f = Flatten <axis = 1> (p)
      g = Gemm (f, m, c)  s = Softmax <axis = 1> (g)  u = Add (s, s)  y = Sigmoid (u) }"""


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_from_7_on_is_read(opset: int) -> None:
    model = version_converter.convert_version(from_text(CONVERTED), opset)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    imported = import_onnx(model, {"n": 2})
    with suppress(state.Fail):  # an opset newer than this ONNX Runtime
        imported = assert_read_as_it_is(model, feeds, {"n": 2})
    graph = imported.graph
    assert graph.opset == opset
    assert all(value.is_static for value in graph.values)
    assert graph.value_named("y").shape == (2, 5)
