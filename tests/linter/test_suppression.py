"""What a model says itself is not to be reported, and what it says that is no rule."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

import hetpart
from tests.linter.models import L4
from tests.runtime.models import model

DEAD = "g (float[2] x) => (float[2] y) { [a] y = Neg (x) [b] h = Abs (x) [c] k = Exp (x) }"
STRINGS = "g (string[2] x) => (string[2] y) { [a] h = Identity (x) [b] y = Identity (h) }"


def saying(where: Any, entry: str) -> None:
    where.metadata_props.add(key="hetpart.ignore", value=entry)


def ops(proto: onnx.ModelProto, rule: str, **options: Any) -> list[str]:
    return [found.op for found in hetpart.lint(proto, select=rule, **options)]


@pytest.mark.parametrize("entry", ["HPG003", "HPG", "dead-node", "ALL", "HPM, dead-node"])
def test_a_node_says_what_is_not_to_be_reported_of_it(entry: str) -> None:
    proto = model(DEAD)
    saying(proto.graph.node[1], entry)
    assert ops(proto, "dead-node") == ["c"]


@pytest.mark.parametrize("where", ["model", "graph"])
def test_the_model_and_its_graph_say_it_of_all(where: str) -> None:
    proto = model(DEAD)
    saying(proto if where == "model" else proto.graph, "dead-node")
    assert ops(proto, "dead-node") == []


@pytest.mark.parametrize("name", ["", "same"])
def test_a_node_without_a_name_of_its_own_says_it_too(name: str) -> None:
    proto = model(STRINGS)
    for node in proto.graph.node:
        node.name = name
    assert len(ops(proto, "no-kernel-for-device", **L4)) == 2
    saying(proto.graph.node[0], "HPD001")
    (left,) = ops(proto, "no-kernel-for-device", **L4)
    assert left.endswith("_1")


def test_a_dead_node_without_a_name_is_known_by_what_it_makes() -> None:
    proto = model(DEAD)
    for node in proto.graph.node:
        node.name = ""
    saying(proto.graph.node[1], "dead-node")
    (found,) = hetpart.lint(proto, select="dead-node")
    assert (found.op, found.anchor) == ("", "k")


def test_the_maker_of_a_value_says_it_of_the_value() -> None:
    proto = model("g (float[2] x) => (float[2] y) { [a] h = Neg (x) [b] y = Neg (h) }")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("h", 1, [3]))
    assert len(hetpart.lint(proto, select="shape-conflict")) == 1
    saying(proto.graph.node[0], "shape-conflict")
    assert hetpart.lint(proto, select="shape-conflict") == []


def test_what_is_no_rule_is_said_once_with_what_may_have_been_meant() -> None:
    proto = model(DEAD)
    saying(proto, "HPM, HPX")
    for node in proto.graph.node[:2]:
        saying(node, "dead_node,HPD")
    unknown, misspelt = hetpart.lint(proto, select="unknown-rule-ignored")
    assert unknown.message == "'HPX', which the model would have ignored, is no rule"
    assert misspelt.message == "'dead_node', which Neg 'a' and 1 node more would have ignored, is no rule"
    assert (misspelt.op, misspelt.anchor) == ("a", "a")
    assert "did you mean dead-node" in misspelt.hint
    assert [found.code for found in hetpart.lint(proto)] == ["HPG003", "HPG003", "HPG011", "HPG011"]


def test_a_body_s_node_is_a_node() -> None:
    proto = model(
        "g (bool c, float[2] x) => (float[2] y) { [i] y = If (c)"
        " <then_branch = t () => (float[2] p) { [p] p = Neg (x) },"
        " else_branch = e () => (float[2] q) { [q] q = Abs (x) }> }"
    )
    saying(proto.graph.node[0].attribute[0].g.node[0], "nothing")
    assert ops(proto, "unknown-rule-ignored") == ["p"]


def test_any_number_of_entries_is_a_bounded_list() -> None:
    proto = model(DEAD)
    saying(proto, ",".join(f"no-rule-{number}" for number in range(50_000)))
    saying(proto.graph.node[1], "x" * 100_000 + ",HPG003")
    found = hetpart.lint(proto, select="HPG003,HPG011")
    assert [one.op for one in found if one.code == "HPG003"] == ["c"]
    assert len(found) == 1 + 300 + 1
    assert found[-1].message == "and 49,701 more of this kind"
