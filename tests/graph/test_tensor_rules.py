"""What is left out before the rules of tensors are asked, no rule would have said anything about."""

from __future__ import annotations

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.graph.tensor_rules import TENSOR_RULES, suspects

SIZES = st.sampled_from([0, 1, 2, 3, -1, 2**40])
TYPES = st.sampled_from([1, 4, 8, 10, 11, 14, 16, 22, 23, 99])


@st.composite
def tensors(draw: st.DrawFn) -> onnx.TensorProto:
    """A tensor of any type, shape and content, which seldom go together."""
    made = onnx.TensorProto(name="w", data_type=draw(TYPES), dims=draw(st.lists(SIZES, max_size=3)))
    if draw(st.booleans()):
        made.raw_data = bytes(draw(st.integers(0, 24)))
    made.float_data.extend([1.0] * draw(st.integers(0, 3)))
    if draw(st.booleans()):
        made.external_data.add(key="location", value="w.bin")
    if draw(st.booleans()):
        made.data_location = onnx.TensorProto.EXTERNAL
    if draw(st.booleans()):
        return onnx.TensorProto.FromString(made.SerializeToString().replace(b"\x01w", b"\x01\xff"))
    return made


@settings(max_examples=300, deadline=None)
@given(st.lists(tensors(), max_size=4))
def test_the_first_rule_that_is_broken_is_the_same_by_those_that_are_left(given: list[onnx.TensorProto]) -> None:
    assert first_broken(suspects(given)) == first_broken(given)


def first_broken(given: list[onnx.TensorProto]) -> tuple[str, list[str]] | None:
    """The rule and who breaks it; sizes that an earlier one refuses are asked no further."""
    broken = ((rule, list(find(given))) for rule, find in TENSOR_RULES)
    return next((found for found in broken if found[1]), None)


def test_whole_tensors_are_left_out() -> None:
    whole = onnx.TensorProto(name="w", data_type=1, dims=[2, 3], raw_data=bytes(24))
    short = onnx.TensorProto(name="v", data_type=1, dims=[2, 3], raw_data=bytes(20))
    assert suspects([whole, short, whole]) == [short]
