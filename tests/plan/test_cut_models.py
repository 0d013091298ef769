"""The partitions' models together are the model: no op is lost, added or done twice, names stay, ONNX accepts each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import hetpart
from hetpart.errors import InvalidModelError
from hetpart.partitioned import PartitionedModel
from hetpart.plan.cut_models import cut_models
from tests.runtime.graphs import models
from tests.runtime.models import model, placed

CONTROL_FLOW = model("""g (float[6] x, bool c, int64 trips) => (float[6] z, float[6] out)
<float[6] w = {1, 2, 3, 4, 5, 6}> {
    [neg] y = Neg(x)
    [twice] t = Add(w, w)
    [branch] r = If (c) <
        then_branch = then () => (float[6] p) <float[6] inner = {0, 0, 0, 1, 1, 1}> { q = Add(y, inner) p = Mul(q, w) },
        else_branch = other () => (float[6] p) { p = Add(y, x) }
    >
    [loop] out = Loop (trips, c, r) <
        body = b (int64 i, bool on, float[6] v) => (bool go, float[6] n) { go = Identity(on) n = Add(v, y) }
    >
    [add] z = Add(r, t)
}""")


def protos(partitioned: PartitionedModel) -> list[onnx.ModelProto]:
    return list(cut_models(partitioned.imported.proto, partitioned.plan))


def assert_complete(partitioned: PartitionedModel) -> None:
    """Every op in the one partition that the plan names, and beside it only what makes constants."""
    plan, cut = partitioned.plan, protos(partitioned)
    assert len(cut) == len(plan.partitions)
    for partition, proto in zip(plan.partitions, cut, strict=True):
        onnx.checker.check_model(proto, full_check=True)
        assert tuple(value.name for value in proto.graph.input) == partition.inputs
        assert tuple(value.name for value in proto.graph.output) == partition.outputs
        names = [node.name for node in proto.graph.node]
        assert max(Counter(names).values()) == 1
        extra = {node.name: node for node in proto.graph.node if node.name not in partition.ops}
        assert set(names) - set(extra) == set(partition.ops)
        constant = {tensor.name for tensor in proto.graph.initializer}
        for node in extra.values():
            assert set(node.input) <= constant
            constant.update(node.output)
    decided = Counter(op for partition in plan.partitions for op in partition.ops)
    assert decided == Counter(decision.op for decision in plan.decisions)
    assert max(decided.values()) == 1


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), seed=st.integers(0, 1000))
def test_nothing_is_lost_added_or_done_twice(proto: onnx.ModelProto, seed: int) -> None:
    assert_complete(hetpart.partition(proto, hardware="emulated", placement=f"random:{seed}"))


@pytest.mark.parametrize("accelerated", [(), ("branch",), ("neg", "loop"), ("loop", "add"), ("branch", "loop")])
def test_subgraphs_bring_what_they_capture(accelerated: tuple[str, ...]) -> None:
    assert_complete(placed(CONTROL_FLOW, accelerated))


def test_nodes_keep_what_they_are() -> None:
    """Op, domain, attributes and operands, as NumPy would compare them: by value."""
    originals = {node.name: node for node in CONTROL_FLOW.graph.node}
    for proto in protos(placed(CONTROL_FLOW, ("branch", "add"))):
        for node in proto.graph.node:
            original = originals[node.name]
            assert (node.op_type, node.domain) == (original.op_type, original.domain)
            assert (list(node.input), list(node.output)) == (list(original.input), list(original.output))
            assert [a.name for a in node.attribute] == [a.name for a in original.attribute]
            assert {p.key: p.value for p in node.metadata_props}["hetpart.device"] in ("cpu", "cuda:0")


def test_weights_go_where_they_are_used_and_nowhere_else() -> None:
    proto = model("""g (float[2] x) => (float[2] z) <float[2] a = {1, 2}, float[2] b = {3, 4}, float[2] c = {5, 6}> {
        [one] p = Add(x, a) [two] q = Add(p, b) [three] r = Add(q, a) [four] z = Add(r, c)
    }""")
    held = [
        {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in cut.graph.initializer}
        for cut in protos(placed(proto, ("two", "three")))
    ]
    assert held == [{"a": [1, 2]}, {"a": [1, 2], "b": [3, 4]}, {"c": [5, 6]}]


def test_derived_weights_are_made_in_every_partition_that_uses_them() -> None:
    proto = model("""g (float[2] x) => (float[2] z) <float[2] a = {1, 2}> {
        [made] t = Exp(a) [one] p = Add(x, t) [two] z = Mul(p, t)
    }""")
    partitioned = hetpart.partition(proto, hardware="emulated", pin=["op:Add=cpu", "op:Mul=cuda"])
    assert [[node.op_type for node in cut.graph.node] for cut in protos(partitioned)] == [
        ["Exp", "Add"],
        ["Exp", "Mul"],
    ]
    assert [(r.weight, r.device) for r in partitioned.plan.residencies] == [("t", "cpu"), ("t", "cuda:0")]


@pytest.mark.parametrize(("ir", "opset"), [(3, 7), (4, 9), (8, 17), (10, 21), (11, 23)])
def test_old_files_may_list_weights_as_inputs(ir: int, opset: int) -> None:
    graph = "g (float[2] x, float[2] w) => (float[2] z) { [a] y = Add(x, w) [b] z = Neg(y) }"
    proto = model(graph, opset=opset, ir=ir)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    partitioned = placed(proto, ("b",))
    for cut in protos(partitioned):
        assert cut.opset_import[0].version == opset
        assert "w" not in {value.name for value in cut.graph.input}
    with partitioned.session(emulate=True) as session:
        assert session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist() == [-1, -2]


def test_what_onnx_ir_cannot_read_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: onnx.ModelProto) -> onnx_ir.Model:
        raise ValueError("unheard of")

    partitioned = placed(CONTROL_FLOW, ())
    monkeypatch.setattr(onnx_ir, "from_proto", refuse)
    with pytest.raises(InvalidModelError, match="cannot be cut: unheard of") as refused:
        protos(partitioned)
    assert refused.value.hint


def test_equal_plans_give_equal_bytes() -> None:
    """Whatever addresses the objects of ``onnx_ir`` have: it gathers weights in sets."""
    weights = [numpy_helper.from_array(np.full(2, number, np.float32), f"w{number}") for number in range(60)]
    nodes = [
        onnx.helper.make_node("Add", [f"v{i}", weight.name], [f"v{i + 1}"], name=f"n{i}")
        for i, weight in enumerate(weights)
    ]
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("v0", f"v{len(nodes)}")]
    graph = onnx.helper.make_graph(nodes, "long", info[:1], info[1:], weights)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    partitioned = hetpart.partition(proto, hardware="emulated", placement="random:1")
    assert len({tuple(cut.SerializeToString(deterministic=True) for cut in protos(partitioned)) for _ in range(5)}) == 1


def test_a_file_of_a_newer_form_is_cut_into_one_that_onnx_runtime_reads(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] z) { [a] z = Relu(x) }'
    )
    proto.ir_version = 14
    bundle = hetpart.partition(proto, hardware="emulated").save(tmp_path / "m.hetpart")
    with hetpart.Session(bundle, emulate=True) as session:
        assert session.run(None, {"x": np.array([-1, 1], np.float32)})[0].tolist() == [0, 1]
