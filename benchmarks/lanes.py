"""What lanes that work at the same time gain, and what they cost.

    python -m benchmarks.lanes [--rounds 40]

Branches: two chains of 512 × 512 × 512 products, one on the host and one on an emulated accelerator, one thread each,
take turns with two bare ONNX Runtime sessions of the same chains in two threads, and in one thread one after the other.
Reach: 0.95 of what the two threads gain. Hidden copy: a large input goes to the accelerator over a link of 2 GB/s while
it computes something else; what the run takes, beside what its tasks take one by one laid out on their lanes. Reach:
1.1 times that. Hops: a chain of tiny ops in 2 to 50 partitions that take turns on two devices, with a copy for each;
the slope is the cost of one more, through the lanes' threads and without them. Reach: 40 µs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hetpart
from benchmarks import chains
from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.runtime.precedence import task_graph
from hetpart.runtime.scheduler import makespan
from hetpart.runtime.sessions import SessionSettings, session_options
from hetpart.runtime.straight import task_functions

if TYPE_CHECKING:
    from hetpart import Session

SIDE = 512
PRODUCTS = 10
LINK = "2GB/s"
WIDE = 8 * 2**20
"""Floats of the copy that is to be hidden: 32 MiB, 17 ms on the link."""
REACH_GAIN, REACH_HIDDEN, REACH_HOP_MICROSECONDS = 0.95, 1.1, 40.0
PARTITIONS = (2, 10, 50)
WIDTH = 64
HOP_ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="runs of each rival")
    rounds: int = parser.parse_args().rounds
    facts = machine_facts()
    branches, hidden, hops = _branches(rounds), _hidden(rounds), _hops(HOP_ROUNDS * rounds)
    emit(
        "lanes",
        {
            "machine": facts,
            "reach": {
                "share_of_the_gain": REACH_GAIN,
                "hidden_copy_over_predicted": REACH_HIDDEN,
                "one_more_partition_microseconds": REACH_HOP_MICROSECONDS,
            },
            "reached": {
                "branches": branches["share_of_the_gain"] >= REACH_GAIN,
                "hidden_copy": hidden["measured_over_predicted"] <= REACH_HIDDEN,
                "hops": hops["lanes"]["microseconds"] <= REACH_HOP_MICROSECONDS,
            },
            "branches": branches,
            "hidden_copy": hidden,
            "hops": hops,
        },
    )


def _branches(rounds: int) -> dict[str, Any]:
    say("lanes: two branches")
    ours = _pinned(_model([*_chain("a"), *_chain("b")], ["a", "b"]), [f"b.{i}" for i in range(PRODUCTS)])
    lanes, in_turn = (ours.session(emulate=True, overlap=overlap) for overlap in (True, False))
    bare = [_bare(_model(_chain(name), [name])) for name in "ab"]
    feeds = {"x": np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32)}
    with ThreadPoolExecutor(1) as other:
        rivals = {
            "bare, two threads": partial(_in_two_threads, other, bare, feeds),
            "bare, one after the other": partial(_in_one_thread, bare, feeds),
            "hetpart, lanes": partial(lanes.run, None, feeds),
            "hetpart, one after the other": partial(in_turn.run, None, feeds),
        }
        seconds = _seconds(rivals, rounds)
    for session in (lanes, in_turn):
        for mine, theirs in zip(session.run(None, feeds), _in_one_thread(bare, feeds), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        session.close()
    gains = {
        name: _median_of_shares(seconds["bare, one after the other"], samples) for name, samples in seconds.items()
    }
    return {
        "milliseconds": {name: Spread.of([1e3 * second for second in samples]) for name, samples in seconds.items()},
        "gain_over_bare_one_after_the_other": gains,
        "share_of_the_gain": round(gains["hetpart, lanes"] / gains["bare, two threads"], 4),
    }


def _median_of_shares(some: Sequence[float], others: Sequence[float]) -> float:
    """Within a round, in which both see the same machine."""
    return round(median(one / other for one, other in zip(some, others, strict=True)), 4)


def _in_two_threads(other: ThreadPoolExecutor, sessions: Sequence[Any], feeds: dict[str, Any]) -> list[Any]:
    later = other.submit(sessions[1].run, None, feeds)
    return [*sessions[0].run(None, feeds), *later.result()]


def _in_one_thread(sessions: Sequence[Any], feeds: dict[str, Any]) -> list[Any]:
    return [result for session in sessions for result in session.run(None, feeds)]


def _hidden(rounds: int) -> dict[str, Any]:
    """Accelerator: products of ``x``; host: an op between; accelerator: reads that and ``wide``."""
    say("lanes: a hidden copy")
    nodes = [
        *_chain("a"),
        helper.make_node("Neg", ["a"], ["n"], name="between"),
        helper.make_node("ReduceMax", ["n"], ["most"], name="most", keepdims=0),
        helper.make_node("Mul", ["wide", "most"], ["scaled"], name="scale"),
        helper.make_node("ReduceMax", ["scaled"], ["y"], name="end", keepdims=0),
    ]
    proto = _model(nodes, ["y"], [helper.make_tensor_value_info("wide", TensorProto.FLOAT, [WIDE])])
    model = _pinned(proto, [*(f"a.{i}" for i in range(PRODUCTS)), "most", "scale", "end"])
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((SIDE, SIDE), np.float32), "wide": rng.standard_normal(WIDE, np.float32)}
    lanes, in_turn = (model.session(emulate=True, overlap=overlap, emulate_link=LINK) for overlap in (True, False))
    tasks: list[dict[int, float]] = []
    rivals = {
        "lanes": partial(lanes.run, None, feeds),
        "one after the other": partial(in_turn.run, None, feeds),
        "each task": lambda: tasks.append(_task_seconds(in_turn, feeds)),
    }
    seconds = _seconds(rivals, rounds)
    graph = task_graph(lanes._layout)
    predicted = [
        makespan(
            replace(graph, tasks=tuple(replace(task, seconds=own[number]) for number, task in enumerate(graph.tasks)))
        )
        for own in tasks[-rounds:]
    ]
    assert model.plan.timeline is not None
    return {
        "tasks_milliseconds": {
            f"{'copy' if task.is_copy else 'partition'} {task.index} on {graph.lanes[task.lane]}": round(
                1e3 * median(own[number] for own in tasks), 3
            )
            for number, task in enumerate(graph.tasks)
        },
        "milliseconds": {
            name: Spread.of([1e3 * second for second in samples])
            for name, samples in (seconds | {"predicted from the tasks": predicted}).items()
            if name != "each task"
        },
        "measured_over_predicted": round(median(seconds["lanes"]) / median(predicted), 4),
    }


def _task_seconds(session: Session, feeds: dict[str, Any]) -> dict[int, float]:
    """Of every task, one after another."""
    executor = session._own_executor()
    frame, graph = executor.frame, task_graph(session._layout)
    for name, value in feeds.items():
        frame.arrays[name, frame.layout.host] = value
    taken: dict[int, float] = {}
    functions = task_functions(frame, graph.tasks)
    for number in range(len(graph.tasks)):
        start = perf_counter()
        functions[number](None)
        taken[number] = perf_counter() - start
    frame.arrays.clear()
    return taken


def _hops(rounds: int) -> dict[str, Any]:
    feeds = {"v0": np.arange(WIDTH, dtype=np.float32)}
    found: dict[str, Any] = {}
    for name, overlap in (("one thread", False), ("lanes", True)):
        say(f"lanes: hops, {name}")
        sessions = [chains.taking_turns(WIDTH, count, overlap=overlap) for count in PARTITIONS]
        rivals = {str(count): partial(each.run, None, feeds) for count, each in zip(PARTITIONS, sessions, strict=True)}
        medians = {int(count): 1e6 * median(samples) for count, samples in _seconds(rivals, rounds).items()}
        found[name] = {
            "run_microseconds": {count: round(taken, 1) for count, taken in medians.items()},
            "microseconds": round(float(np.polyfit(list(medians), list(medians.values()), 1)[0]), 2),
        }
        for session in sessions:
            session.close()
    least = PARTITIONS[0]
    found["threads_cost_a_run_microseconds"] = round(
        found["lanes"]["run_microseconds"][least] - found["one thread"]["run_microseconds"][least], 1
    )
    return found


def _seconds(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    runs = list(rivals.values())
    interleaved(runs, 3)
    return dict(zip(rivals, interleaved(runs, rounds), strict=True))


def _chain(name: str) -> list[Any]:
    """Products that lead from ``x`` to ``name``."""
    values = ["x", *(f"{name}{i}" for i in range(1, PRODUCTS)), name]
    return [helper.make_node("MatMul", [values[i], "w"], [values[i + 1]], name=f"{name}.{i}") for i in range(PRODUCTS)]


def _model(nodes: list[Any], outputs: list[str], inputs: Sequence[Any] = ()) -> ModelProto:
    square = [SIDE, SIDE]
    weight = np.random.default_rng(1).standard_normal(square, np.float32) / np.float32(np.sqrt(SIDE))
    shapes = {"y": []}
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, square), *inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, square)) for name in outputs],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _pinned(proto: ModelProto, accelerated: Sequence[str]) -> hetpart.PartitionedModel:
    pins = [
        f"node:{node.name}={chains.ACCELERATOR if node.name in accelerated else 'cpu'}" for node in proto.graph.node
    ]
    return hetpart.partition(proto, hardware=chains.HARDWARE, pin=pins, threads=1, overlap=True)


def _bare(proto: ModelProto) -> onnxruntime.InferenceSession:
    options = session_options(SessionSettings(threads=1), None)
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
