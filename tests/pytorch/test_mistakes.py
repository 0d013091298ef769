# pyright: reportUnknownMemberType=false
"""Calls that are none, and what is said of axes where it says nothing: one message that tells what to write."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import hetpart
from hetpart.errors import InvalidModelError, InvalidOptionError
from tests.pytorch.models import Called

X = torch.ones(2, 8)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_torch_jit_made_is_named() -> None:
    layer = nn.Linear(8, 4)
    for scripted in (torch.jit.script(layer), torch.jit.trace(layer, X)):
        with pytest.raises(InvalidModelError, match=r"it is what torch\.jit made") as refused:
            hetpart.partition(scripted, args=(X,))
        assert refused.value.hint == "give the module as it was before torch.jit"
    with pytest.raises(InvalidModelError, match=r"refuses Sequential: its part '1' is what torch\.jit made") as refused:
        hetpart.partition(nn.Sequential(nn.ReLU(), torch.jit.script(layer)), args=(X,))
    assert refused.value.hint == "give 1 as it was before torch.jit"


SAID: dict[str, tuple[Any, str]] = {
    "a name alone": ("batch", "'batch', which speaks of no argument"),
    "a number alone": (3, "3, which speaks of no argument"),
    "a name of a tensor": (("batch",), "says 'batch' of 'input'"),
    "a name of a tensor by its name": ({"input": "batch"}, "says 'batch' of 'input'"),
    "a dimension of a tensor": ({"input": Dim("rows")}, "says 'rows' of 'input'"),
    "an axis by a text": ({"input": {"0": "batch"}}, "says the axis '0' of 'input'"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_no_axis_is_refused(name: str) -> None:
    said, message = SAID[name]
    with pytest.raises(InvalidOptionError, match=message) as refused:
        hetpart.partition(nn.Linear(8, 4), args=(X,), dynamic_shapes=said)
    assert "write dynamic_shapes={'x': {0: 'batch'}}" in refused.value.hint


@torch.library.custom_op("hetpart_mistakes::formless", mutates_args=())
def formless(x: Tensor) -> Tensor:
    return x * 2


_library = torch.library.Library("hetpart_mistakes", "FRAGMENT")
_library.define("bare(Tensor x) -> Tensor")
_library.impl("bare", lambda x: x * 2, "CPU")


@pytest.mark.parametrize("name", ["formless", "bare"])
def test_an_operator_of_whose_results_nobody_knows_the_form_is_refused_with_what_to_register(name: str) -> None:
    called = getattr(torch.ops.hetpart_mistakes, name)
    with pytest.raises(InvalidModelError, match=name) as refused:
        hetpart.partition(Called(lambda x: called(x + 1)), args=(X,))
    assert "@torch.library.register_fake(" in refused.value.hint


@pytest.mark.parametrize("kwargs", [[1], "x", [("x", X)], {1: X}, 0])
def test_arguments_by_name_are_a_mapping(kwargs: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"^kwargs cannot be ") as refused:
        hetpart.partition(nn.Linear(8, 4), args=(X,), kwargs=kwargs)
    assert "kwargs={" in refused.value.hint
