"""What ONNX Runtime's arena says of a run, by its profile, and what the cost model says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import hetpart
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.bodies import session_lane
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.memory import session_memory
from hetpart.cost_model.session.packing import turned_in_arena
from hetpart.devices import Provider
from hetpart.runtime.sessions import SessionSettings, session_options
from hetpart.runtime.thrifty import spared
from tests.cost_model.this_processor import own_lane


def profiled_nodes(
    model: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray[Any, Any]],
    folder: Path,
    *,
    optimize: bool = True,
    thrifty: bool = False,
    threads: int = 1,
) -> list[dict[str, Any]]:
    """What the profile says of every node of three runs, inputs and outputs in memory of the caller."""
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = dict(zip([o.name for o in plain.get_outputs()], plain.run(None, dict(feeds)), strict=True))
    options = session_options(SessionSettings(optimize=optimize, threads=threads), None)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    with spared(options, Provider.CPU) if thrifty else nullcontext():
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for name, value in results.items():
        binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for _ in range(3):
        session.run_with_iobinding(binding)
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return [event for event in events if event["name"].endswith("_kernel_time")]


def predicted_peak(
    model: onnx.ModelProto | str | Path, *, thrifty: bool = False, threads: int = 1, **shape: int
) -> int:
    """Most bytes that the cost model says of the session of all of ``model``, which returns what ``model`` returns."""
    graph = hetpart.load(model, shape=shape)
    ends, fusions = frozenset(graph.outputs), find_fusions(graph)
    lane = session_lane(graph, own_lane(thrifty=thrifty, threads=threads))
    kernels = session_kernels(graph, [op.id for op in graph.ops], fusions, lane, ends)
    weights = turned_in_arena(graph, [op.id for op in graph.ops], Provider.CPU)
    return session_memory(kernels, {*graph.inputs, *graph.outputs}, weights, thrifty=thrifty).in_use


def measured_peak(nodes: list[dict[str, Any]]) -> int:
    """Most bytes in use, what was in use before the first node left out.

    Where the session had more in use while it was made, the peak tells nothing, and what each node leaves in use does.
    """
    first = nodes[0]["args"]
    before = int(first["mem_bytes_in_use"]) - int(first["mem_in_use_delta"])
    peak = int(nodes[-1]["args"]["mem_in_use_peak"])
    after = max(int(node["args"]["mem_bytes_in_use"]) for node in nodes)
    return (peak if peak > int(first["mem_in_use_peak"]) else after) - before
