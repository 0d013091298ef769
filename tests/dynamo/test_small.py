"""``torch.compile(backend=hetpart)`` against eager PyTorch on what users write."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any

import pytest
import torch

from hetpart.dynamo.backend import hetpart
from tests.dynamo.small import Small, cases
from tests.pytorch.test_partition import assert_equal

EMULATED = {"hardware": "emulated", "emulate": True}
CASES = cases()


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def outcomes(code: Any, small: Small) -> list[Any]:
    """Results, and what became of the arguments."""
    calls = copy.deepcopy(small.calls)
    with torch.no_grad():
        made = [code(*call) for call in calls]
    return [made, list(calls)]


@pytest.mark.parametrize("name", CASES)
def test_what_is_compiled_does_as_eager_pytorch(name: str) -> None:
    """By a placement by chance, which cuts more than a good one; ``benchmarks/torch_models.py`` has both."""
    small = CASES[name]
    plans: list[Any] = []
    options = {**EMULATED, "placement": "random:1", "on_plan": plans.append}
    compiled = torch.compile(copy.deepcopy(small.code), backend=hetpart, options=options, dynamic=small.dynamic)
    assert_equal(outcomes(compiled, small), outcomes(copy.deepcopy(small.code), small))
    assert plans or name == "only_views"
