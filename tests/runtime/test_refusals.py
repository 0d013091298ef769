"""What ONNX Runtime says of models it refuses, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hetpart
from hetpart.errors import ExecutionError
from hetpart.runtime import check
from hetpart.runtime.refusals import ort_message
from tests.runtime.models import model

RELU = "g (float[2] x) => (float[2] z) { [a] z = Relu(x) }"


def refusal_of(proto: onnx.ModelProto, **feeds: object) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception) as refused:  # noqa: PT011 - ONNX Runtime raises a dozen kinds
        onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)
    assert "onnxruntime/core" in str(refused.value)
    return ort_message(refused.value)


def test_no_path_or_signature_of_its_source_is_left() -> None:
    later = model(RELU)
    later.ir_version = 99
    assert refusal_of(later).startswith("FAIL : Unsupported model IR version: 99, max supported IR version: ")
    shape = model("g (float[4] x, int64[2] s) => (float[A, B] z) { [a] z = Reshape(x, s) }")
    said = refusal_of(shape, x=np.zeros(4, np.float32), s=np.array([3, 3]))
    assert "Status Message: input_shape_size == requested_shape_size was false." in said
    assert said.endswith("requested shape:{3,3}")
    assert "reshape_helper" not in said


def test_names_that_repeat_say_what_to_do_when_checked(tmp_path: Path) -> None:
    proto = model("g (float[2] x) => (float[2] z) { [a] y = Relu(x) [a] z = Neg(y) }")
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = hetpart.partition(tmp_path / "m.onnx", hardware="emulated").save(tmp_path / "m.hetpart")
    assert check.run(bundle, emulate=True, random_seed=0).runs == 1
    with pytest.raises(ExecutionError, match=r"two nodes with same node name \(a\)") as refused:
        check.run(bundle, emulate=True, random_seed=0, check=True)
    assert "name of its own" in refused.value.hint
