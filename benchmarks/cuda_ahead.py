"""For a machine with a GPU: runs that ask the device for work ahead, beside runs that wait for every task.

    python -m benchmarks.cuda_ahead [--rounds 30] [--tiny] [--emulate]

Hidden copy: the device multiplies matrices while a large input, which only its last partition reads, is on its way; an
op of the host stands between. Whole run, in turns: asked ahead; waited for, on lanes; one task after the other. Hops: a
chain of tiny ops in 2 to 50 partitions of the device; the slope is the cost of one more. Every answer is compared with
ONNX Runtime's on the host. ``--emulate`` tries the script out where there is no GPU: nothing is asked ahead then, which
the output says.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper

import hetpart
from benchmarks import chains
from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.plan.bundle import Bundle
from hetpart.plan.cut_models import cut_models

if TYPE_CHECKING:
    from hetpart import Session

WAYS: dict[str, dict[str, Any]] = {
    "asked ahead": {"overlap": True},
    "waited for, on lanes": {"overlap": True, "record": True},
    "one after the other": {"overlap": False},
}
"""A session that records its runs waits for every task."""
PARTITIONS = (2, 10, 50)
SIZES = {False: (4096, 2**26), True: (64, 2**12)}
"""Side of the matrices, and floats of the large input; the same with ``--tiny``."""
PRODUCTS, WIDTH = 16, 64
WARM_UP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="runs of each way")
    parser.add_argument("--tiny", action="store_true", help="small matrices, to try it out")
    parser.add_argument("--emulate", action="store_true", help="without a GPU")
    arguments = parser.parse_args()
    facts = machine_facts()
    hidden = _hidden(arguments.rounds, *SIZES[arguments.tiny], emulate=arguments.emulate)
    hops = {way: _hops(arguments.rounds, way, emulate=arguments.emulate) for way in WAYS}
    emit("cuda_ahead", {"machine": facts, "emulated": arguments.emulate, "hidden_copy": hidden, "hops": hops})


def _hidden(rounds: int, side: int, wide: int, *, emulate: bool) -> dict[str, Any]:
    say("cuda_ahead: a hidden copy")
    proto = _model(side, wide)
    pins = {f"node:{node.name}": "cpu" if node.name == "between" else "cuda" for node in proto.graph.node}
    model = hetpart.partition(proto, hardware="emulated" if emulate else "h100", pin=pins)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((side, side), np.float32) / side, "wide": rng.standard_normal(wide, np.float32)}
    sessions = {way: hetpart.Session(model.bundle(), emulate=emulate, **options) for way, options in WAYS.items()}
    plain = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = plain.run(None, feeds)
    for session in sessions.values():
        np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=2e-2)  # TF32
    return {
        "why_nothing_is_asked_ahead": {way: session.ahead.why_not for way, session in sessions.items()},
        "milliseconds": _spreads({way: partial(one.run, None, feeds) for way, one in sessions.items()}, rounds, 1e3),
    }


def _model(side: int, wide: int) -> ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "x"], ["p0"], name="p0")]
    nodes += [helper.make_node("MatMul", [f"p{i}", "x"], [f"p{i + 1}"], name=f"p{i + 1}") for i in range(PRODUCTS)]
    nodes += [
        helper.make_node("ReduceMax", [f"p{PRODUCTS}"], ["peak"], name="peak", keepdims=0),
        helper.make_node("Neg", ["peak"], ["turned"], name="between"),
        helper.make_node("Add", ["wide", "turned"], ["moved"], name="moved"),
        helper.make_node("ReduceMax", ["moved"], ["y"], name="end", keepdims=0),
    ]
    shapes = {"x": [side, side], "wide": [wide], "y": []}
    x, large, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph(nodes, "hidden", [x, large], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _hops(rounds: int, way: str, *, emulate: bool) -> dict[str, Any]:
    say(f"cuda_ahead: one more partition, {way}")
    sessions = {count: _chain(count, way, emulate=emulate) for count in PARTITIONS}
    feeds = {"v0": np.arange(WIDTH, dtype=np.float32)}
    for session in sessions.values():
        np.testing.assert_array_equal(session.run(None, feeds)[0], feeds["v0"] + 0.5 * chains.OPS)
    spreads = _spreads({count: partial(one.run, None, feeds) for count, one in sessions.items()}, 20 * rounds, 1e6)
    slope = np.polyfit(PARTITIONS, [spreads[count].median for count in PARTITIONS], 1)[0]
    return {"microseconds": round(float(slope), 2), "run_microseconds": spreads}


def _chain(partitions: int, way: str, *, emulate: bool) -> Session:
    whole = hetpart.partition(
        chains.chain(WIDTH), hardware="emulated" if emulate else "h100", placement="all-accelerator"
    )
    plan = chains.split(whole.plan, partitions)
    models = tuple(proto.SerializeToString() for proto in cut_models(whole.imported.proto, plan))
    return hetpart.Session(Bundle(plan, models, None), emulate=emulate, **WAYS[way])


def _spreads(rivals: dict[Any, Callable[[], object]], rounds: int, unit: float) -> dict[Any, Spread]:
    runs = list(rivals.values())
    interleaved(runs, WARM_UP)
    samples = interleaved(runs, rounds)
    found = {name: Spread.of([unit * one for one in own]) for name, own in zip(rivals, samples, strict=True)}
    say(f"cuda_ahead: { ({name: median(own) * unit for name, own in zip(rivals, samples, strict=True)}) }")
    return found


if __name__ == "__main__":
    main()
