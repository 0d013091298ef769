"""Every operator that ONNX defines has a formula, or a reason here why it has none."""

from __future__ import annotations

import json

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state

from hetpart.cost_model.formulas.table import CONTRIB, flops, whole
from hetpart.cost_model.kernel_facts import FACTS

WITHOUT_FORMULA = {
    ("ai.onnx.preview.training", "Gradient"): "it stands for the derivative of a whole graph; no provider runs it",
}
CONTRIB_WITHOUT_FORMULA = {
    "a whole search in one op: how often it runs its subgraphs only a run can tell": (
        "BeamSearch",
        "GreedySearch",
        "Sampling",
        "WhisperBeamSearch",
    ),
    "of one model of its time; no exporter or optimiser writes it": ("AttnLSTM", "Tokenizer", "WordConvEmbedding"),
}
COMPILED = {
    "a graph that another tool has compiled: what is in it nothing here can read": ("EPContext", "Snpe"),
}  # fmt: skip
"""Why, and the ops. They are charged as any unknown op: all read, all written, some flops an element."""


def test_operators_without_a_formula_are_the_ones_listed_here():
    defined = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()}
    covered = {*flops.keys(), *whole.keys()}
    assert defined - covered == set(WITHOUT_FORMULA)


def test_what_onnx_runtime_adds_has_formulas_but_for_the_ones_listed_here():
    known = json.loads(FACTS.read_bytes())["ops"]
    covered = {*flops.keys(), *whole.keys()}
    missing = {(domain, name) for domain, ops in known.items() for name in ops} - covered
    assert missing == {(CONTRIB, name) for names in CONTRIB_WITHOUT_FORMULA.values() for name in names}


def test_all_that_onnx_runtime_defines_in_its_domain_has_formulas_but_for_the_ones_listed_here():
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    defined = {(schema.domain, schema.name) for schema in schemas if schema.domain == CONTRIB}
    listed = {
        (CONTRIB, name) for table in (CONTRIB_WITHOUT_FORMULA, COMPILED) for ops in table.values() for name in ops
    }
    assert defined >= {(CONTRIB, "FusedMatMul"), *listed}
    assert defined - {*flops.keys(), *whole.keys()} == listed


def test_the_walk_saw_the_standard_operators():
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    assert names >= {"Conv", "MatMul", "Loop", "Attention", "LSTM", "SequenceMap"}


def test_no_operator_has_both_a_whole_formula_and_one_for_its_flops():
    assert not set(flops.keys()) & set(whole.keys())
