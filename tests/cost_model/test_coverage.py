"""Every operator that ONNX defines has a formula, or a reason here why it has none."""

from __future__ import annotations

import onnx

from hetpart.cost_model.formulas.table import flops, whole

WITHOUT_FORMULA = {
    ("ai.onnx.preview", "FlexAttention"): "its score functions are subgraphs of another form, and no provider runs it",
    ("ai.onnx.preview.training", "Gradient"): "it stands for the derivative of a whole graph; no provider runs it",
}


def test_operators_without_a_formula_are_the_ones_listed_here():
    defined = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()}
    covered = {*flops.keys(), *whole.keys()}
    assert defined - covered == set(WITHOUT_FORMULA)


def test_the_walk_saw_the_standard_operators():
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    assert names >= {"Conv", "MatMul", "Loop", "Attention", "LSTM", "SequenceMap"}


def test_no_operator_has_both_a_whole_formula_and_one_for_its_flops():
    assert not set(flops.keys()) & set(whole.keys())
