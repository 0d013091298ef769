"""Pairs of plans: one that breaks a rule, and one that does not. Nothing here runs: values may be of any size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

import hetpart
from hetpart.cost_model import calibrated
from hetpart.plan.model import Plan
from tests.linter.models import L4, NOISE, Made, Make, Options, Pair, text, weighted
from tests.runtime.models import model

CPU, CUDA = "cpu", "cuda:0"
ROOM = "20GB"
STEPS = 8
LONG = (
    "g (float[67108864] v0) => (float[67108864] v8) { "
    + "".join(f"[n{i}] v{i + 1} = Neg (v{i}) " for i in range(STEPS))
    + "}"
)
SUMMED = """g (float[67108864] x) => (float y) {
    [a] h = Neg (x) [b] s = ReduceSum <keepdims = 0> (h) [c] i = Neg (s) [d] j = Neg (i) [e] k = Neg (j) [f] y = Neg (k)
}"""
SIZED = """g (float[1] x) => (float y) {
    [a] one = Abs (x)
    [b] size = Cast <to = 7> (one) [c] made = Expand (one, size) [d] y = ReduceSum <keepdims = 0> (made)
}"""
SHARED = "g (float[1,600] x) => (float[1,600] y, float[1,600] z) { [a] y = MatMul (x, w) [b] z = MatMul (x, w) }"
SQUARE = "g (float[8192,8192] x) => (float[8192,8192] y) { [a] h = MatMul (x, x) [b] y = Neg (h) }"
TOTAL = "g (float[%d] x) => (float y) { [a] h = Neg (x) [b] y = ReduceSum <keepdims = 0> (h) }"


def placed(made: Made, **options: Any) -> Plan:
    return hetpart.partition(made, **{**L4, "budget": ROOM, "time_limit": 5, **options}).plan


def by(placement: str) -> Options:
    """Held against a plan that was made so."""
    return lambda made: {**L4, "plan": placed(made, placement=placement)}


def pinned(**devices: str) -> Options:
    """Held against a plan with every op on the device that is said."""
    pins = {f"node:{op}": device for op, device in devices.items()}
    return lambda made: {**L4, "plan": placed(made, placement="all-cpu", pin=pins)}


def steps(*devices: str) -> Options:
    """The same of ``LONG``, its ops in their order."""
    return pinned(**{f"n{i}": device for i, device in enumerate(devices)})


def with_room(of_peak: int, more: int) -> Options:
    """All on the accelerator, under so many times what that takes, and ``more`` bytes."""

    def options(made: Made) -> Mapping[str, Any]:
        everything = {"pin": f"*={CUDA}"}
        peak = placed(made, **everything).device(CUDA).peak_bytes
        return {**L4, **everything, "budget": of_peak * peak + more}

    return options


def held_against(kept: Make, **options: Any) -> Options:
    """Against the plan of another model, linted as ``options`` say."""
    return lambda _: {**L4, **options, "plan": placed(kept(Path()))}


def made_anew(made: Made) -> Mapping[str, Any]:
    """A plan of the file as it was before."""
    assert isinstance(made, Path)
    plan = placed(made)
    made.write_bytes(model(LONG.replace("Neg", "Abs")).SerializeToString())
    return {**L4, "plan": plan}


def as_file(make: Make) -> Make:
    def written(folder: Path) -> Path:
        made = make(folder)
        assert isinstance(made, onnx.ModelProto)
        (folder / "m.onnx").write_bytes(made.SerializeToString())
        return folder / "m.onnx"

    return written


def looked_up(folder: Path) -> Path:
    """A table of 64 MiB, a hole in a file, of which a run reads four rows."""
    proto = model("g (int64[4] at) => (float[4,64] y) { [a] y = Gather (table, at) }")
    table = TensorProto(name="table", data_type=1, dims=[2**18, 64], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="table.bin")
    proto.graph.initializer.append(table)
    with (folder / "table.bin").open("wb") as file:
        file.truncate(2**26)
    return as_file(lambda _: proto)(folder)


def calibrated_with(version: str) -> Options:
    """On a machine that was calibrated with that ONNX Runtime; the caller has set the folder of calibrations."""

    def options(_: Made) -> Mapping[str, Any]:
        place = calibrated.path_of(calibrated.this_processor(), version)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
        return {"hardware": "l4"}

    return options


PLAN_PAIRS: Mapping[str, Pair] = {
    "cpu-island": Pair(text(LONG), text(LONG), steps(CUDA, CUDA, CPU, *[CUDA] * 5), steps(CPU, CPU, *[CUDA] * 6)),
    "ping-pong-copy": Pair(text(LONG), text(LONG), steps(*(CPU, CUDA) * 4), steps(*[CPU] * 4, *[CUDA] * 4)),
    "host-read-in-accelerator-region": Pair(
        text(SIZED), text(SIZED), pinned(a=CUDA, b=CUDA, c=CUDA, d=CUDA), pinned(a=CUDA, b=CPU, c=CUDA, d=CUDA)
    ),
    "duplicate-initializer": Pair(
        weighted(SHARED, w=NOISE), weighted(SHARED, w=NOISE), pinned(a=CPU, b=CUDA), pinned(a=CUDA, b=CUDA)
    ),
    "peak-from-one-value": Pair(text(TOTAL % 2**29), text(TOTAL % 2**10), pinned(a=CPU, b=CUDA)),
    "thin-headroom": Pair(weighted(SHARED, w=NOISE), weighted(SHARED, w=NOISE), with_room(1, 10), with_room(2, 0)),
    "table-on-accelerator": Pair(looked_up, looked_up, pinned(a=CUDA), pinned(a=CPU)),
    "copy-bound-partition": Pair(text(LONG), text(SQUARE), steps(CPU, CUDA, *[CPU] * 6), pinned(a=CUDA, b=CPU)),
    "tiny-partition": Pair(
        text(SUMMED), text(SUMMED), pinned(a=CPU, b=CPU, c=CUDA, d=CPU, e=CUDA, f=CPU),
        pinned(a=CPU, b=CPU, c=CPU, d=CPU, e=CUDA, f=CUDA),
    ),
    "stale-calibration": Pair(text(LONG), text(LONG), calibrated_with("1.2.3"), {"hardware": "l4"}),
    "stale-plan": Pair(
        as_file(text(LONG)), as_file(text(LONG)), made_anew, lambda made: {**L4, "plan": placed(made)}
    ),
    "profile-mismatch": Pair(
        text(LONG), text(LONG), held_against(text(LONG), hardware="t4+epyc"), held_against(text(LONG))
    ),
    "gap-above-limit": Pair(text(LONG), text(LONG), by("random:1"), by("optimal")),
    "baseline-better": Pair(text(LONG), text(LONG), by("random:1"), by("optimal")),
    "plan-regressed": Pair(
        text(LONG), text(LONG), held_against(text(SUMMED), budget=ROOM), held_against(text(LONG), budget=ROOM)
    ),
}  # fmt: skip
"""By rule."""
