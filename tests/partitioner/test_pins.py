from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.config import parse_pins
from hetpart.cost_model.machines import load_machine
from hetpart.errors import InvalidOptionError
from hetpart.graph.ir import Graph, Op
from hetpart.partitioner.pins import matches, resolve_pins

L4 = load_machine("l4+epyc")
BLANK = Op(0, "", "", "", 20, (), (), (), {}, "")
OPS = tuple(
    replace(BLANK, id=id_, name=name, op_type=op_type, scope=scope)
    for id_, (name, op_type, scope) in enumerate(
        [
            ("/embed/Gather", "Gather", "embed"),
            ("/encoder/layer.0/attention/MatMul", "MatMul", "encoder.layer.0.attention"),
            ("/encoder/layer.0/Add", "Add", "encoder.layer.0"),
            ("/encoder/layer.10/Add", "Add", "encoder.layer.10"),
            ("/fc/MatMul", "MatMul", ""),
            ("x[0]", "Gather", ""),
        ]
    )
)
GRAPH = Graph("tiny", OPS, (), (), (), {}, 20, {})


@pytest.mark.parametrize(
    ("pin", "pinned"),
    [
        ("op:Gather=cpu", {0, 5}),
        ("op:Mat*=cpu", {1, 4}),
        ("node:/fc/MatMul=cpu", {4}),
        ("node:*MatMul=cpu", {1, 4}),
        ("encoder.layer.0.*=cpu", {1, 2}),
        ("encoder.layer.0=cpu", {1, 2}),
        ("encoder.layer.?0=cpu", {3}),
        ("encoder=cpu", {1, 2, 3}),
        ("Gather=cpu", {0, 5}),
        ("/fc/*=cpu", {4}),
        ("x[0]=cpu", {5}),
        ("node:x[[]0]=cpu", {5}),
        ("*=cpu", {0, 1, 2, 3, 4, 5}),
    ],
)
def test_a_pin_matches_names_scopes_and_types(pin: str, pinned: set[int]) -> None:
    assert set(resolve_pins(parse_pins(pin), GRAPH, L4)) == pinned
    assert {op.id for op in OPS if matches(parse_pins(pin)[0], op)} == pinned


def test_pins_say_the_device_of_every_op_they_match() -> None:
    pins = parse_pins(["op:Gather=cpu", "node:/fc/*=cuda", "embed=host"])
    assert resolve_pins(pins, GRAPH, L4) == {0: "cpu", 4: "cuda:0", 5: "cpu"}


def test_no_pins_place_nothing() -> None:
    assert resolve_pins((), GRAPH, L4) == {}


@pytest.mark.parametrize(
    ("pin", "suggested"),
    [("op:Gathr=cpu", "Gather"), ("node:/fc/MatMull=cpu", "/fc/MatMul"), ("encoder.layers.0.*=cpu", "encoder.layer.0")],
)
def test_a_pin_that_matches_nothing_suggests_close_names(pin: str, suggested: str) -> None:
    with pytest.raises(InvalidOptionError, match="matches no op of 'tiny'") as caught:
        resolve_pins(parse_pins(pin), GRAPH, L4)
    assert f"'{suggested}'" in caught.value.hint


@pytest.mark.parametrize("pin", ["op:gather=cpu", "node:Gather=cpu", "op:/fc/MatMul=cpu", "op:encoder*=cpu"])
def test_kinds_and_case_are_kept_apart(pin: str) -> None:
    with pytest.raises(InvalidOptionError, match="matches no op"):
        resolve_pins(parse_pins(pin), GRAPH, L4)


def test_nothing_close_gives_examples() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        resolve_pins(parse_pins("op:Zzz=cpu"), GRAPH, L4)
    assert "'Add'" in caught.value.hint


def test_examples_begin_with_modules_where_a_pin_may_name_one() -> None:
    for pin, first in (("zzz=cpu", "'embed', 'encoder', 'encoder.layer', 'encoder.layer.0'"), ("node:zzz=cpu", "'/")):
        with pytest.raises(InvalidOptionError) as caught:
            resolve_pins(parse_pins(pin), GRAPH, L4)
        assert caught.value.hint.startswith(f"the graph has, for example, {first}")


def test_an_empty_graph_has_nothing_to_pin() -> None:
    with pytest.raises(InvalidOptionError, match="matches no op"):
        resolve_pins(parse_pins("*=cpu"), replace(GRAPH, ops=()), L4)


def test_pins_that_contradict_each_other_are_both_named() -> None:
    with pytest.raises(InvalidOptionError, match=r"'op:Gather=cpu' and 'embed=cuda:0'.*'/embed/Gather'"):
        resolve_pins(parse_pins(["op:Gather=cpu", "embed=cuda:0"]), GRAPH, L4)


def test_an_unknown_device_lists_the_machines() -> None:
    with pytest.raises(InvalidOptionError, match="'cuda:3'") as caught:
        resolve_pins(parse_pins("op:Gather=cuda:3"), GRAPH, L4)
    assert "cpu, cuda:0" in caught.value.hint
