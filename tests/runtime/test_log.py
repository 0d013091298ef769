"""Lines of a run: the kernels that ONNX Runtime's own profile has, by the names that the user's model has for them."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import hetpart
from hetpart.runtime import check
from tests.runtime.models import model

LINE = re.compile(r"  (\S+) \((\w+)( in \S+)?\) by CPUExecutionProvider costs (\d+) us")
RUNS = 5
HOST = ("conv", "relu", "flat", "product", "bias", "cut", "tanh")


def _model(path: Path) -> onnx.ModelProto:
    """Kernels that stay as they are, are fused and are laid out in blocks; the last of them on the accelerator."""
    proto = model("""fused (float[1,16,8,8] x) => (float[16,16] z) {
        [conv] c = Conv <pads=[1,1,1,1]> (x, k)
        [relu] r = Relu(c)
        [flat] f = Reshape(r, shape)
        [product] p = MatMul(f, w)
        [bias] s = Add(p, b)
        [cut] t = Relu(s)
        [tanh] u = Tanh(t)
        [back] z = MatMul(u, v)
    }""")
    drawn = np.random.default_rng(0)
    weights: dict[str, Any] = {"k": (16, 16, 3, 3), "w": (64, 16), "b": (16,), "v": (16, 16)}
    arrays = {name: drawn.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    arrays["shape"] = np.array([16, 64])
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(proto, path)
    return proto


def _profiled(proto: onnx.ModelProto, folder: Path) -> Counter[str]:
    """Kernels in ONNX Runtime's own profile of a model."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "plain")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.ones((1, 16, 8, 8), np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text())
    return Counter(event["args"]["op_name"] for event in events if event["cat"] == "Node")


def _bundle(tmp_path: Path) -> Path:
    _model(tmp_path / "m.onnx")
    pins = [*(f"node:{name}=cpu" for name in HOST), "node:back=cuda"]
    return hetpart.partition(tmp_path / "m.onnx", hardware="emulated", pin=pins).save(tmp_path / "m.hetpart")


def _run(bundle: Path, **options: Any) -> None:
    check.run(bundle, random_seed=0, emulate=True, **options)


def _lines(caplog: pytest.LogCaptureFixture, level: int) -> list[tuple[str, str]]:
    told = [LINE.fullmatch(record.getMessage()) for record in caplog.records if record.levelno == level]
    return [(found[1], found[2]) for found in told if found]


@pytest.mark.parametrize("repeat", [1, RUNS])
def test_a_line_of_every_kernel_of_the_host(tmp_path: Path, caplog: pytest.LogCaptureFixture, repeat: int) -> None:
    bundle = _bundle(tmp_path)
    caplog.set_level(logging.INFO, "hetpart.run")
    _run(bundle, verbosity=1, repeat=repeat)
    host = _model(tmp_path / "host.onnx")
    host.graph.node.pop()
    host.graph.output[0].name = "u"
    told = _lines(caplog, logging.INFO)
    assert Counter(kernel for _, kernel in told) == _profiled(host, tmp_path)
    assert set(told) >= {("relu", "Conv"), ("flat", "Reshape"), ("product", "FusedGemm"), ("tanh", "Tanh")}
    assert ("back", "MatMul") not in told


def test_kernels_of_an_accelerator_are_lines_too_where_all_are_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hetpart.run")
    _run(_bundle(tmp_path), verbosity=2)
    assert _lines(caplog, logging.DEBUG) == [("back", "MatMul")]
    assert ("tanh", "Tanh") in _lines(caplog, logging.INFO)


@pytest.mark.parametrize(("options", "runs"), [({"verbosity": 1}, 2), ({"verbosity": 2}, 2), ({}, RUNS + 1)])
def test_profiles_end_with_the_first_run_that_is_measured_unless_the_last_is_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int], runs: int
) -> None:
    """Kernels are slower where they are profiled: what else is measured is not."""
    found: list[dict[int, list[dict[str, Any]]]] = []
    monkeypatch.setattr(check, "log_run", lambda _, nodes: found.append(nodes))
    trace = None if options else tmp_path / "trace.json"
    _run(_bundle(tmp_path), repeat=RUNS, trace=trace, **options)
    (nodes,) = found
    assert nodes
    assert all(sum(event["name"] == "model_run" for event in events) == runs for events in nodes.values())


def test_nothing_is_profiled_where_nothing_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "profiling_options", lambda _: pytest.fail("profiles were asked for"))
    _run(_bundle(tmp_path), repeat=2)
