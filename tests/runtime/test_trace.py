"""A trace holds what ran, when and where, and every arrow ends in the slice that it is for."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

import hetpart
from hetpart.cli import main
from hetpart.errors import ExecutionError
from tests.runtime.models import cut, model, placed

CHAIN = model("""chain (float[64,64] x) => (float[64,64] z) {
    [a] a = MatMul(x, x)
    [b] b = MatMul(a, a)
    [c] c = Tanh(b)
    [d] z = MatMul(c, a)
}""")
FEED = {"x": np.eye(64, dtype=np.float32)}


def _traced(tmp_path: Path, accelerated: tuple[str, ...], **options: Any) -> list[dict[str, Any]]:
    settings = onnxruntime.SessionOptions()
    settings.enable_profiling, settings.profile_file_prefix = True, str(tmp_path / "p")
    with cut(CHAIN, accelerated, record=True, sess_options=settings, **options) as session:
        for _ in range(3):
            session.run(None, FEED)
        session.write_trace(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == [tmp_path / "trace.json"]
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"] == {"emulated": True}
    return trace["traceEvents"]


def _slices(events: list[dict[str, Any]], process: int, *kinds: str) -> list[dict[str, Any]]:
    return [e for e in events if e["ph"] == "X" and e["pid"] == process and e["cat"] in kinds]


PLACEMENTS = [("b", "c"), ("b",), ("a", "b", "c", "d"), ()]


@pytest.mark.parametrize("accelerated", PLACEMENTS)
@pytest.mark.parametrize("overlap", [False, True])
def test_a_trace_shows_the_last_run(tmp_path: Path, accelerated: tuple[str, ...], overlap: bool) -> None:
    plan = placed(CHAIN, accelerated).plan
    events = _traced(tmp_path, accelerated, overlap=overlap)
    expected = sorted([f"partition {p.id}" for p in plan.partitions] + [f"copy {t.value}" for t in plan.transfers])
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for process in (1, 2):
        slices = _slices(events, process, "partition", "copy")
        assert sorted(e["name"] for e in slices) == expected
        lanes = {names[process, e["tid"]] for e in slices}
        assert lanes == {p.device for p in plan.partitions} | {f"{t.source}->{t.target}" for t in plan.transfers}
        for thread in {e["tid"] for e in slices}:
            mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == thread)
            assert all(begin >= end - 1e-3 for (_, end), (begin, _) in pairwise(mine))


@pytest.mark.parametrize("accelerated", PLACEMENTS)
def test_nodes_lie_in_their_partitions(tmp_path: Path, accelerated: tuple[str, ...]) -> None:
    plan = placed(CHAIN, accelerated).plan
    events = _traced(tmp_path, accelerated)
    parts = {e["name"]: e for e in _slices(events, 1, "partition")}
    nodes = {e["name"]: e for e in _slices(events, 1, "Node")}
    assert set(nodes) == {f"{op}_kernel_time" for p in plan.partitions for op in p.ops}
    for partition in plan.partitions:
        around = parts[f"partition {partition.id}"]
        for op in partition.ops:
            inside = nodes[f"{op}_kernel_time"]
            assert inside["tid"] == around["tid"]
            assert around["ts"] <= inside["ts"]
            assert inside["ts"] + inside["dur"] <= around["ts"] + around["dur"] + 1e-3


def test_arrows_and_counters(tmp_path: Path) -> None:
    plan = placed(CHAIN, ("b", "c")).plan
    events = _traced(tmp_path, ("b", "c"))
    slices = {e["name"]: e for e in _slices(events, 1, "partition", "copy")}
    heads = {e["id"]: e for e in events if e["ph"] == "s"}
    tails = {e["id"]: e for e in events if e["ph"] == "f"}
    assert set(heads) == set(tails)
    assert {e["name"] for e in heads.values()} == {copy.value for copy in plan.transfers}
    for number, head in heads.items():
        source = [s for s in slices.values() if s["tid"] == head["tid"] and s["ts"] <= head["ts"] <= s["ts"] + s["dur"]]
        target = [s for s in slices.values() if s["tid"] == tails[number]["tid"] and s["ts"] == tails[number]["ts"]]
        assert len(source) == len(target) == 1
        assert "copy" in (source[0]["cat"], target[0]["cat"])
    for device in ("cpu", "cuda:0"):
        steps = [e["args"]["values"] for e in events if e["ph"] == "C" and e["name"].endswith(device)]
        assert steps[-1] == 0
        assert max(steps) >= 64 * 64 * 4


def test_states_are_counted_beside_values(tmp_path: Path) -> None:
    """What is kept is there all the time, both blocks of it, and is no value of the run."""
    proto = model("""total (float[1000] x, float[1000] total) => (float[1000] total_out, float[1000] y) {
        [add] total_out = Add(total, x) [neg] y = Neg(total_out)
    }""")
    with cut(proto, ("add",), record=True, state={"total": "total_out"}) as session:
        session.run(None, {"x": np.ones(1000, np.float32)})
        session.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    steps = [event["args"] for event in events if event["ph"] == "C" and event["name"].endswith("cuda:0")]
    assert {step["states"] for step in steps} == {8000}
    assert max(step["values"] for step in steps) == 4000


@pytest.mark.parametrize("accelerated", PLACEMENTS)
@pytest.mark.parametrize("overlap", [False, True])
def test_perfetto_drops_no_event(tmp_path: Path, accelerated: tuple[str, ...], overlap: bool) -> None:
    """Its importer of this format drops slices of a thread that do not nest, and arrows that lead nowhere or back."""
    events = _traced(tmp_path, accelerated, overlap=overlap)
    assert {event["ph"] for event in events} <= {"X", "M", "s", "f", "C"}
    assert all(event["ts"] >= 0 and isinstance(event["pid"], int) for event in events if event["ph"] != "M")
    assert all(value >= 0 for event in events if event["ph"] == "C" for value in event["args"].values())
    slices = [event for event in events if event["ph"] == "X"]
    for thread in {(event["pid"], event["tid"]) for event in slices}:
        mine = [event for event in slices if (event["pid"], event["tid"]) == thread]
        ends: list[float] = []
        for event in sorted(mine, key=lambda event: (event["ts"], -event["dur"])):
            while ends and ends[-1] <= event["ts"] + 1e-3:
                ends.pop()
            ends.append(event["ts"] + event["dur"])
            assert ends == sorted(ends, reverse=True)
    leaves, arrives = ({e["id"]: e["ts"] for e in events if e["ph"] == phase} for phase in "sf")
    assert leaves.keys() == arrives.keys()
    assert all(leaves[number] <= arrives[number] for number in leaves)


TWO_STEPS = model("""steps (float[1000] x, float[1000] total) => (float[1000] total_out, float[1000] y, float[1000] z) {
    [far] total_out = Add(total, x) [there] t = Exp(total_out) [out] z = Abs(t)
    [here] h = Exp(x) [next] y = Neg(h)
}""")


@pytest.mark.parametrize("planned", [True, False], ids=["of the plan", "of the session"])
def test_the_predicted_run_overlaps_where_the_run_does_with_states_too(tmp_path: Path, planned: bool) -> None:
    """A link that is slow by far: what the host computes is predicted to happen during the copy of the input."""
    there = ("far", "there", "out")
    pins = [f"node:{name}={'cuda' if name in there else 'cpu'}" for name in (*there, "here", "next")]
    states = {"total": "total_out"}
    made = hetpart.partition(TWO_STEPS, hardware="emulated", pin=pins, state=states if planned else None)
    options: dict[str, Any] = {"emulate": True, "overlap": True, "emulate_link": 1e6, "state": states}
    with hetpart.Session(made.bundle(), record=True, **options) as session:
        session.run(None, {"x": np.ones(1000, np.float32)})
        session.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = {event["name"]: event for event in _slices(events, 2, "partition", "copy")}
    copies = [event for event in slices.values() if event["cat"] == "copy"]
    assert sorted(event["name"] for event in copies) == ["copy x", "copy z"]
    assert all(event["dur"] == pytest.approx(4000.0) for event in copies), "as long as on the link"
    (host,) = (part for part in made.plan.partitions if part.device == "cpu")
    assert slices[f"partition {host.id}"]["ts"] == slices["copy x"]["ts"] == 0


@pytest.mark.parametrize("flags", [["-v"], ["-vv"], ["--trace", "t.json"], ["--trace", "t.json", "-v", "--native"]])
def test_the_command_writes_traces_and_lines(
    zoo_model: Callable[[str], Path], tmp_path: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, bundle = zoo_model("control-flow-tiny"), tmp_path / "b.hetpart"
    made = ["partition", str(path), "--hardware", "emulated", "--shape", "batch=2", "--placement", "random:1"]
    assert CliRunner().invoke(main, [*made, "-o", str(bundle)]).exit_code == 0
    ran = CliRunner().invoke(main, ["run", str(bundle), "--random", "--emulate", "--repeat", "3", *flags])
    assert ran.exit_code == 0, ran.output
    lines = [line for line in ran.stderr.splitlines() if "] partition " in line]
    assert bool(lines) == any(flag.startswith("-v") for flag in flags)
    assert all(line.startswith("I") and "predicted" in line for line in lines)
    assert ("D1" in ran.stderr or "D0" in ran.stderr) == ("-vv" in flags)
    assert (tmp_path / "t.json").exists() == ("--trace" in flags)


@pytest.mark.parametrize("accelerated", [("b",), ()])
def test_a_trace_of_nothing_is_refused(tmp_path: Path, accelerated: tuple[str, ...]) -> None:
    with cut(CHAIN, accelerated, record=True) as session:
        with pytest.raises(ExecutionError, match="no run"):
            session.write_trace(tmp_path / "trace.json")
        session.run(None, FEED)
        session.write_trace(tmp_path / "trace.json")
    with pytest.raises(ExecutionError, match="closed"):
        session.write_trace(tmp_path / "trace.json")
    with cut(CHAIN, accelerated) as session:
        session.run(None, FEED)
        with pytest.raises(ExecutionError, match="notes nothing") as refused:
            session.write_trace(tmp_path / "other.json")
    assert "record=True" in refused.value.hint
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("seconds", [-3600.0, -1e-4, 1e-4, 3600.0], ids=["hour back", "back", "on", "hour on"])
def test_nodes_are_found_though_the_time_of_day_was_set(tmp_path: Path, seconds: float) -> None:
    """ONNX Runtime's profile goes by the time of day, a run by a clock that nobody sets."""
    settings = onnxruntime.SessionOptions()
    settings.enable_profiling, settings.profile_file_prefix = True, str(tmp_path / "p")
    with cut(CHAIN, ("b",), record=True, sess_options=settings) as session:
        session.run(None, FEED)
        told = session.end_node_profiles()
        moved = {place: [e | {"ts": e["ts"] + 1e6 * seconds} for e in events] for place, events in told.items()}
        session.write_trace(tmp_path / "trace.json", moved)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    parts = {e["name"]: e for e in _slices(events, 1, "partition")}
    nodes = {e["name"]: e for e in _slices(events, 1, "Node")}
    assert sorted(nodes) == [f"{op}_kernel_time" for op in "abcd"]
    for partition in session.plan.partitions:
        around = parts[f"partition {partition.id}"]
        for inside in (nodes[f"{op}_kernel_time"] for op in partition.ops):
            assert around["ts"] <= inside["ts"]
            assert inside["ts"] + inside["dur"] <= around["ts"] + around["dur"] + 1e-3
