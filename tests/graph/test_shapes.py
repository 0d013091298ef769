from __future__ import annotations

import shlex

import onnx
import pytest
from onnx import helper

from hetpart.errors import InvalidOptionError, UnboundDimensionsError
from hetpart.graph.shapes import bind_dimensions


def model(*shapes: list[int | str | None]) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(f"x{i}", 1, shape) for i, shape in enumerate(shapes)]
    return helper.make_model(helper.make_graph([], "g", values, []))


def sizes(bound: onnx.ModelProto) -> list[list[int]]:
    return [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in bound.graph.input]


@pytest.mark.parametrize(
    ("shape", "bindings", "expected"),
    [
        (["batch", 3], {"batch": 8}, [8, 3]),
        (["batch", "seq"], {"batch": 2, "seq": 0}, [2, 0]),
        (["past + seq"], {"past": 5, "seq": 3}, [8]),
        (["2*(a - b)//3"], {"a": 7, "b": 1}, [4]),
        ([None, 4], {"x0.0": 6}, [6, 4]),
        (["past + seq"], {"past + seq": 9}, [9]),
    ],
)
def test_binds_names_expressions_and_axes(
    shape: list[int | str | None], bindings: dict[str, int], expected: list[int]
) -> None:
    bound = model(shape)
    bind_dimensions(bound, bindings)
    assert sizes(bound) == [expected]


def test_a_dimension_may_be_left_open() -> None:
    bound = model(["past", 2], ["past + seq", "seq"])
    assert bind_dimensions(bound, {"past": -1, "seq": 3}) == {"seq": 3}
    assert sizes(bound) == [[0, 2], [0, 3]]


def test_one_name_binds_everywhere_and_is_reported_once() -> None:
    bound = model(["n", 2], [3, "n"])
    assert bind_dimensions(bound, {"n": 7}) == {"n": 7}
    assert sizes(bound) == [[7, 2], [3, 7]]


def test_unbound_dimensions_are_listed_with_the_flag_to_give() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        bind_dimensions(model(["batch", "past + seq"], ["batch"]), {"seq": 1})
    assert "batch (of x0[0], x1[0])" in caught.value.message
    assert "past + seq (of x0[1])" in caught.value.message
    assert caught.value.hint.endswith("--shape batch=1,past=1,seq=1")


@pytest.mark.parametrize(
    "expression", ["a - b", "a // 0", "a ** b", "a.b", "f(a)", "a" * 5000, "(" * 90 + "a" + ")" * 90]
)
def test_what_is_no_size_is_unbound_or_bound_by_its_own_name(expression: str) -> None:
    with pytest.raises(UnboundDimensionsError):
        bind_dimensions(model([expression]), {})
    bound = model([expression])
    bind_dimensions(bound, {expression: 4})
    assert sizes(bound) == [[4]]


def test_a_name_the_model_lacks_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        bind_dimensions(model(["batch"]), {"batch": 1, "bacth": 2})
    assert "'batch'" in caught.value.hint


@pytest.mark.parametrize(
    ("expression", "bindings", "said"),
    [
        ("a - b", {"a": 1, "b": 2}, "a - b = -1 (of x0[0])"),
        ("a*a*a*a", {"a": 10**17}, "a*a*a*a, over 2^63 (of x0[0])"),
        ("a", {"a": 10**400}, "a, over 2^63 (of x0[0])"),
    ],
)
def test_a_result_that_is_no_size_is_told(expression: str, bindings: dict[str, int], said: str) -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        bind_dimensions(model([expression]), bindings)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("name", "flag"),
    [("f(a, b)", "f(a, b)=1"), ("a ** b", "a ** b=1"), ("seq-len", "seq-len=1"), ("seq - len", "len=1,seq=1")],
)
def test_the_flag_to_give_suffices(name: str, flag: str) -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        bind_dimensions(model([name]), {})
    assert shlex.split(caught.value.hint)[-2:] == ["--shape", flag]


def test_what_has_no_shape_has_no_dimension() -> None:
    bound = model()
    bound.graph.input.append(helper.make_tensor_sequence_value_info("s", 1, ["n"]))
    bound.graph.input.append(onnx.ValueInfoProto(name="untyped"))
    assert bind_dimensions(bound, {}) == {}


def test_a_negative_dimension_is_an_open_one() -> None:
    bound = model([-1, 3])
    assert bind_dimensions(bound, {"x0.0": 5}) == {"x0.0": 5}
    assert sizes(bound) == [[5, 3]]


def test_weights_among_the_inputs_need_no_size() -> None:
    bound = model(["n"])
    bound.graph.initializer.append(helper.make_tensor("x0", 1, [2], [1.0, 2.0]))
    assert bind_dimensions(bound, {}) == {}
