"""Arenas of sessions under a budget, by what ONNX Runtime's profile says of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hetpart
from hetpart.devices import Provider
from hetpart.runtime import loads, sessions
from hetpart.runtime.options import entry
from hetpart.runtime.sessions import SessionSettings, session_options
from hetpart.runtime.thrifty import arena, spared
from tests.runtime import models

ROWS = 1024
KIB = 1024


def narrowing() -> ModelProto:
    """Products whose results take 3, 2 and 3 MiB, one after another, of which two are there at a time."""
    widths = (4, 768, 512, 768, 4)
    weights = [
        numpy_helper.from_array(np.ones((before, after), np.float32), f"w{number}")
        for number, (before, after) in enumerate(pairwise(widths))
    ]
    names = ["x", *(f"v{number}" for number in range(len(weights) - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[number], weight.name], [names[number + 1]], name=f"n{number}")
        for number, weight in enumerate(weights)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "narrowing", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def opened(folder: Path, name: str, *, apart: bool = True) -> onnxruntime.InferenceSession:
    options = session_options(SessionSettings(threads=1), None)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / name)
    with spared(options, Provider.CPU, apart=apart):
        return onnxruntime.InferenceSession(
            narrowing().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def nodes_of(session: onnxruntime.InferenceSession) -> list[dict[str, Any]]:
    binding = session.io_binding()
    given = np.ones((ROWS, 4), np.float32)
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(given))
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(given)))
    for _ in range(3):
        session.run_with_iobinding(binding)
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return [event["args"] for event in events if event["name"].endswith("_kernel_time")]


def before(nodes: list[dict[str, Any]]) -> int:
    """In use when the first node begins: prepared weights."""
    return int(nodes[0]["mem_bytes_in_use"]) - int(nodes[0]["mem_in_use_delta"])


def test_what_is_in_use_is_what_is_asked_for(tmp_path: Path) -> None:
    nodes = nodes_of(opened(tmp_path, "one"))
    assert int(nodes[-1]["mem_in_use_peak"]) - before(nodes) == (3 + 2) * KIB * KIB


def test_each_has_an_arena_of_its_own(tmp_path: Path) -> None:
    first, second = opened(tmp_path, "first"), opened(tmp_path, "second")
    one, other = nodes_of(first), nodes_of(second)
    assert before(one) == before(other) > 0
    assert one[-1]["mem_arena_held"] == other[-1]["mem_arena_held"]


def test_sessions_of_one_plan_use_the_same_memory_by_turns(tmp_path: Path) -> None:
    with arena():
        first, second = (opened(tmp_path, name, apart=False) for name in ("first", "second"))
    alone = opened(tmp_path, "alone")
    one, other, lone = nodes_of(first), nodes_of(second), nodes_of(alone)
    assert before(one) == before(other) == 2 * before(lone)
    assert int(other[-1]["mem_in_use_peak"]) - before(other) == (3 + 2) * KIB * KIB


def test_sessions_of_one_plan_are_made_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices of both have a budget; each waits until the other is being made, too."""
    proto = models.model("pair (float[2] x) => (float[2] y) { [one] a = Exp (x) [two] y = Sqrt (a) }")
    budgets = {"budget": "1GB", "host_budget": "1GB"}
    planned = hetpart.partition(proto, hardware="emulated", pin=["node:one=cpu", "node:two=cuda"], **budgets)
    both, made = Barrier(2, timeout=30), sessions.open_session

    def meet(*arguments: Any) -> Any:
        both.wait()
        return made(*arguments)

    monkeypatch.setattr(loads.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(sessions, "open_session", meet)
    with planned.session(emulate=True) as session:
        np.testing.assert_allclose(session.run(None, {"x": np.ones(2, np.float32)})[0], np.exp(0.5), rtol=1e-5)


def test_other_providers_have_arenas_of_their_own_kind() -> None:
    options = session_options(SessionSettings(), None)
    with spared(options, Provider.CUDA):
        assert not options.enable_mem_reuse
        assert not options.enable_mem_pattern
    assert entry(options, "session.use_env_allocators") is None
