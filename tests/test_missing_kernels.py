"""An op without a kernel on a device is not placed there, whatever is asked, and the reason is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import hetpart
from hetpart.cli import main
from hetpart.plan.model import Decision

MACHINE = "l4+generic-2core"
PLACEMENTS = ("optimal", "all-cpu", "all-accelerator", "accelerate-order", "random:3")
NO_CUDA = """<ir_version: 8, opset_import: ["": 17]> no_cuda (float[512, 512] x) => (float[512, 512] z) {
    [before] h = MatMul (x, x)  [odd] c = Celu <alpha = 2.0> (h)  [after] z = MatMul (c, c)
}"""
NO_CPU = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
no_cpu (float[1, 2, 3840] x, float[3840] b) => (float[1, 2, 1920] z) {
    [before] h = Neg (x)  [odd] c = com.microsoft.BiasSplitGelu (h, b)  [after] z = Relu (c)
}"""
STRINGS = """<ir_version: 8, opset_import: ["": 17]> strings (float[4] x) => (string[4] z) {
    [before] h = Neg (x)  [odd] z = Cast <to = 8> (h)
}"""


@dataclass(frozen=True)
class Case:
    """A model whose op ``odd`` one device cannot run."""

    text: str
    op_type: str
    lacking: str
    able: str
    reason: str


CASES = (
    Case(NO_CUDA, "Celu", "cuda:0", "cpu", "no CUDA kernel for Celu-12"),
    Case(NO_CPU, "BiasSplitGelu", "cpu", "cuda:0", "no CPU kernel for BiasSplitGelu-1"),
    Case(STRINGS, "Cast", "cuda:0", "cpu", "Cast uses a string, which CUDA kernels cannot"),
)
cases = pytest.mark.parametrize("case", CASES, ids=[case.op_type for case in CASES])


def odd(model: hetpart.PartitionedModel) -> Decision:
    return next(decision for decision in model.plan.decisions if decision.op == "odd")


def partition(text: str, **options: str) -> hetpart.PartitionedModel:
    return hetpart.partition(onnx.parser.parse_model(text), **{"hardware": MACHINE} | options)


@cases
def test_a_pin_to_where_there_is_no_kernel_names_op_and_reason(case: Case) -> None:
    for pin in (f"op:{case.op_type}={case.lacking}", f"odd={case.lacking}", f"*={case.lacking}"):
        with pytest.raises(hetpart.InvalidModelError) as refused:
            partition(case.text, pin=pin)
        assert refused.value.message == (
            f"no device can run {case.op_type} ('odd'): {case.reason} and it is pinned to {case.lacking}"
        )
        assert "remove the pin" in refused.value.hint
    assert odd(partition(case.text, pin=f"odd={case.able}")).device == case.able


@cases
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_rule_places_it_there(case: Case, placement: str) -> None:
    model = partition(case.text, placement=placement)
    decision = odd(model)
    assert (decision.op_type, decision.device) == (case.op_type, case.able)
    assert set(decision.seconds) == {case.able}
    assert case.reason in decision.reason
    others = [op.seconds for op in model.plan.decisions if op.op != "odd"]
    assert others
    assert all(set(seconds) == {"cpu", "cuda:0"} for seconds in others)


@cases
def test_report_and_files_say_why(case: Case, tmp_path: Path) -> None:
    model = partition(case.text)
    report = " ".join(model.report().split())
    assert case.reason in report
    assert f"no kernel {case.able} {case.op_type} odd" in report
    bundle = model.save(tmp_path / "m.hetpart")
    stored = json.loads((Path(bundle) / "plan.json").read_text())
    (row,) = (row for row in stored["decisions"] if row["op"] == "odd")
    assert case.reason in row["reason"]
    assert list(row["seconds"]) == [case.able]


@cases
def test_annotate_counts_it_on_that_device_alone(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(case.text), path)
    answer = CliRunner().invoke(main, ["annotate", str(path), "--hardware", MACHINE, "--json"])
    rows = {row["name"]: row for row in json.loads(answer.stdout)["rows"]}
    found = {
        (name, there["device"]): (there["ops_without_kernel"], there["seconds"] is None)
        for name, row in rows.items()
        for there in row["devices"]
    }
    assert {key for key, lacks in found.items() if lacks != (0, False)} == {("odd", case.lacking)}
    assert found["odd", case.lacking] == (1, True)
    assert case.reason in rows["odd"]["reason"]


def test_onnx_runtime_says_the_same_of_the_cpu() -> None:
    for text, lacks in ((NO_CPU, True), (NO_CUDA, False), (STRINGS, False)):
        proto = onnx.parser.parse_model(text).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        except NoKernel:
            assert lacks
        else:
            assert not lacks
