"""Modules and FX nodes of several ops, beside the plan's own ops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import hetpart
from hetpart.errors import InvalidOptionError

X = torch.linspace(-1, 1, 2 * 16 * 64).reshape(2, 16, 64)  # of three axes a Linear is a product and an addition
OPTIONS: dict[str, Any] = {"args": (X,), "hardware": "emulated", "placement": "random:1"}
MODULE = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Sequential(nn.Linear(256, 64), nn.ReLU()))


def ops_in(module: str) -> dict[str, float]:
    """The ops of ``module`` in a plan, with their seconds where they are."""
    plan = hetpart.partition(MODULE, **OPTIONS).plan
    return {one.op: one.seconds[one.device] or 0.0 for one in plan.decisions if one.scope == module}


@pytest.mark.parametrize("module", ["0", "2.0"])
def test_of_a_module_the_op_that_takes_longest_is_explained(module: str) -> None:
    found = hetpart.explain(MODULE, module, **OPTIONS)
    known = ops_in(module)
    assert len(known) == 2
    assert found.explanation.op_type == "MatMul"
    assert known[found.explanation.op] == max(known.values())
    assert {found.explanation.op, *found.explanation.others} == set(known)
    assert f"{module}, with {found.explanation.others[0]}" in found.report()


def test_an_fx_node_is_explained_as_its_module_is() -> None:
    node, module = (hetpart.explain(MODULE, name, **OPTIONS).explanation for name in ("linear_1", "2.0"))
    assert node.source.startswith("FX node linear_1 ")
    assert (node.op, node.others) == (module.op, module.others)
    alone = hetpart.explain(MODULE, node.others[0], **OPTIONS).explanation
    assert (alone.op, alone.asked, alone.others) == (node.others[0], "", ())


def test_a_module_of_modules_is_no_op() -> None:
    with pytest.raises(InvalidOptionError, match="'2' matches 3 ops"):
        hetpart.explain(MODULE, "2", **OPTIONS)
