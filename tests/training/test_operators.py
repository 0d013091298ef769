# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Operators of hetpart's own: what they cost is no guess."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import hetpart
from hetpart.cost_model.formulas.table import flops
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.training import SGD
from hetpart.training.compiled import capture, place
from hetpart.training.operators import NAMESPACE
from hetpart.training.row_operators import ROWWISE
from hetpart.training.rules import Rules


def test_every_operator_that_pytorch_knows_of_ours_has_a_formula() -> None:
    known = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{NAMESPACE}::")}
    names = {name.removeprefix(f"{NAMESPACE}::") for name in known if not name.endswith("_")}
    assert names >= {name.lower() for name in ROWWISE}
    for name in names:
        assert flops.get((CALL_DOMAIN, f"{NAMESPACE}.{name}.default")), name


@pytest.mark.parametrize("rules", [Rules("fp16", None, 2, 1.0), Rules(None, None, 1, 1.0)])
def test_lint_knows_what_a_saved_step_costs(tmp_path: Path, rules: Rules) -> None:
    batch = (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    made = capture(
        model,
        lambda model, given, label: nn.functional.cross_entropy(model(given), label),
        optimizer=SGD(0.1),
        example_batch=batch,
        rules=rules,
    )
    place(made, hardware="emulated").save(tmp_path / "step.onnx", *batch)
    assert not [found for found in hetpart.lint(tmp_path / "step.onnx", hardware="emulated") if found.code == "HPC001"]
