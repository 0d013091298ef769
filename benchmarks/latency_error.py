"""Predicted latency beside measured: the zoo on this machine's processor, after ``hetpart calibrate``.

    python -m benchmarks.latency_error [--zoo DIR] [--cases NAME ...] [--threads N ...] [--rounds N]
    python -m benchmarks.latency_error --profile generic-2core

Every round calibrates, with ``--refine``, in a folder of its own, and then runs every case: calibration and models meet
the same machine, whose other tenants come and go in minutes. Models are never part of a calibration.

Every model is planned all on the host and runs as one session. Measured is what an undisturbed machine takes: the least
of many runs, or of every piece of a run in ONNX Runtime's profile where that is less (``undisturbed``). A processor
whose cores other tenants share runs at half its speed for most of the time; the median says how far that was so.
``--profile`` predicts from a profile that comes with hetpart instead of the calibration.

The rank correlation is Spearman's, over the kernels of the simulated session that ``paired_kernels`` finds in ONNX
Runtime's profile, each from its begin to that of the next, less what the profile and the session add to each: the least
that a Reshape takes in it. The profile cuts off all but whole microseconds, and half of a small model's kernels take
less than one; but each run begins at another part of one, so that means over the quietest runs tell them apart.
``rank_correlation_of_told`` is that of kernels of three microseconds and more;
``rank_correlation_of_rounds`` that of the profile with itself, round by round: how much rounds differ, and no limit of
what tells their least.
``rank_correlation_of_kinds`` is that of the median of all kernels of the same ops and shapes behind the same ops, known
from the profile itself, for comparison. Where
what takes part in a run depends on its inputs, each set of them is measured by itself, and their mean counts.
``paired_share`` is the part of the profiled time that these kernels took.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime

import hetpart
from benchmarks import zoo
from benchmarks.measure import emit, machine_facts, say
from benchmarks.models.dlrm import CRITEO_KAGGLE
from benchmarks.paired_kernels import (
    CLOCK,
    Node,
    Pairing,
    Profiled,
    Run,
    kinds_correlation,
    paired,
    profile_into,
    profiled_nodes,
    rank_correlation,
)  # fmt: skip
from benchmarks.table import figure, print_table
from benchmarks.undisturbed import Noting, Pieces, fetch_mapped_weights
from hetpart import PartitionedModel
from hetpart.cost_model.calibrated import FOLDER_VARIABLE
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.likeness import likenesses
from hetpart.cost_model.measured import UNMEASURED, TimedKernel, measured_kernels
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.lane import lane_of
from hetpart.cost_model.session.reuse import Kernel
from hetpart.devices import HOST
from hetpart.graph.ir import Graph
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.random_feeds import random_feeds
from hetpart.runtime.sessions import SessionSettings, session_options

REACH = {"calibrated": 0.10, "profile": 0.30, "rank_correlation": 0.9}
COLUMNS = {
    "case": figure("case"),
    "threads": figure("threads"),
    "error": figure("error", "{:+.1%}"),
    "predicted ms": figure("predicted_seconds", "{:.3f}", 1e3),
    "measured ms": figure("measured_seconds", "{:.3f}", 1e3),
    "median ms": figure("median_seconds", "{:.3f}", 1e3),
    "to least run": figure("error_to_least_run", "{:+.1%}"),
    "ranks": figure("rank_correlation", "{:.3f}"),
    "of itself": figure("rank_correlation_of_rounds", "{:.3f}"),
    "of kinds": figure("rank_correlation_of_kinds", "{:.3f}"),
    "of 3 us": figure("rank_correlation_of_told", "{:.3f}"),
    "paired": figure("paired_share", "{:.1%}"),
}
CALIBRATED = "host"
"""The profile of the processor that hetpart runs on: calibrated, where it was."""
SECONDS, ROUNDS = 2.0, 4
FEWEST_RUNS, MOST_RUNS = 8, 4000
TOLD = 3 * CLOCK
"""Seconds of kernels that the profile's clock tells apart: it is off by up to one tick at either end."""
FEEDS = 8
"""Sets of inputs that runs take in turn."""
LOOKED_UP = 2**21
"""Rows of tables in all sets of inputs together: by the time they come again they lie in no cache."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the zoo at one size."""

    model: str
    shape: Mapping[str, int]
    access: Mapping[str, float] | None = None
    """What the user knows of it: how likely a row takes part."""
    rows: tuple[int, ...] = ()
    """Of the tables that the columns of the input ``ids`` look rows up in, or of the one that all do."""

    @property
    def kinds(self) -> int:
        """Of its inputs: where what takes part depends on them, every set of them is measured by itself."""
        return FEEDS if self.access else 1


VOCABULARY = 200_000
"""Of the zoo's Wide & Deep."""
CASES: Mapping[str, Case] = {
    "bert-base": Case("bert-base", {"batch": 1, "seq": 128}),
    "gpt2-prefill": Case("gpt2", {"batch": 1, "seq": 128, "context": 1}),
    "gpt2-decode": Case("gpt2", {"batch": 1, "seq": 1, "context": 512}),
    **{f"dlrm-{batch}": Case("dlrm", {"batch": batch}, rows=CRITEO_KAGGLE) for batch in (1, 128, 4096)},
    **{
        f"wide-and-deep-{batch}": Case("wide-and-deep", {"batch": batch}, rows=(VOCABULARY,))
        for batch in (1, 128, 4096)
    },
    **{name: Case(name, {}) for name in ("resnet50", "densenet121", "shufflenet")},
    "vit-base": Case("vit-base", {"batch": 1}),
    "whisper": Case("whisper", {"batch": 1, "seq": 16}),
    "moe": Case("moe", {"tokens": 64}, {"*expert*": 2 / 8}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measuring each case in a round, twice")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of calibrating and measuring, one after the other")
    parser.add_argument("--profile", default=CALIBRATED, help="a processor's profile to predict from")
    asked = parser.parse_args()
    facts = machine_facts()
    bench = _Bench(asked.zoo, asked.seconds, [(name, threads) for threads in asked.threads for name in asked.cases])
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        for turn in range(asked.rounds):
            say(f"latency_error: round {turn + 1} of {asked.rounds}")
            if asked.profile == CALIBRATED:
                subprocess.run(
                    [sys.executable, "-m", "hetpart", "calibrate", "--refine"], check=True, stdout=sys.stderr
                )
            bench.measure()
        rows = [bench.row(name, threads, asked.profile) for name, threads in bench.measured]
    with tempfile.TemporaryDirectory() as uncalibrated:
        os.environ[FOLDER_VARIABLE] = uncalibrated
        for row in rows:
            row["built_in_error"] = bench.error(row["case"], row["threads"], CALIBRATED)
    rows.sort(key=lambda row: -abs(row["error"]))
    errors = {
        threads: mean(abs(row["error"]) for row in rows if row["threads"] == threads) for threads in asked.threads
    }
    to_runs = {
        threads: mean(abs(row["error_to_least_run"]) for row in rows if row["threads"] == threads)
        for threads in asked.threads
    }
    print_table(COLUMNS, rows)
    built_in = {
        threads: mean(abs(row["built_in_error"]) for row in rows if row["threads"] == threads)
        for threads in asked.threads
    }
    reach = REACH["calibrated" if asked.profile == CALIBRATED else "profile"]
    emit(
        "latency_error",
        {
            "machine": facts,
            "profile": asked.profile,
            "rounds": asked.rounds,
            "seconds_a_case": asked.seconds,
            "reach": REACH,
            "mean_absolute_error": errors,
            "mean_absolute_error_to_least_run": to_runs,
            "mean_absolute_error_of_built_in_profile": built_in,
            "reached": {
                "error": all(error <= reach for error in errors.values()),
                "built_in_profile": all(error <= REACH["profile"] for error in built_in.values()),
                "ranks": [row["rank_correlation"] >= REACH["rank_correlation"] for row in rows].count(True),
                "ranks_of": len(rows),
            },
            "models": rows,
        },
    )


@dataclass(slots=True)
class _Measured:
    """What a case took at best, on inputs of one kind."""

    walls: list[float] = field(default_factory=list[float])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    rounds: list[dict[str, Node]] = field(default_factory=list[dict[str, Node]])
    """What each round found of every node."""
    pieces: Pieces = field(default_factory=Pieces)

    def least(self, noting: Noting) -> float:
        """Seconds undisturbed."""
        return min(min(self.walls), self.pieces.seconds(noting))

    def add(self, walls: Sequence[float], nodes: Sequence[Node], runs: Sequence[Run]) -> None:
        self.walls += walls
        self.pieces.add(runs)
        self.rounds.append({node.name: node for node in nodes})
        for node in nodes:
            known = self.nodes.get(node.name, node)
            self.nodes[node.name] = replace(
                node, seconds=min(known.seconds, node.seconds), least=min(known.least, node.least)
            )


class _Bench:
    """Every case at every number of threads."""

    def __init__(self, folder: Path, seconds: float, wanted: Sequence[tuple[str, int]]) -> None:
        self._folder, self._seconds = folder, seconds
        self.measured = {(name, n): [_Measured() for _ in range(CASES[name].kinds)] for name, n in wanted}
        self._noting: dict[int, Noting] = {}
        self._run: dict[tuple[str, int], PartitionedModel] = {}

    def measure(self) -> None:
        """Run all of them for some seconds."""
        for (name, threads), kinds in self.measured.items():
            model = self._run.get((name, threads)) or self._model(name, threads, "generic-2core")
            self._run[name, threads] = model
            feeds = _feeds(model, CASES[name])
            walls = _walls(model, feeds, threads, self._seconds)
            profiled = _nodes(model, feeds, threads, self._seconds, len(kinds))
            for kind, measured in enumerate(kinds):
                measured.add(walls[kind :: len(kinds)], *profiled[kind])
            self._noting[threads] = Noting.of(threads).least(self._noting.get(threads))
            say(f"latency_error: {name}, threads {threads}: {1e3 * self.least(name, threads):.3f} ms")

    def _model(self, name: str, threads: int, profile: str) -> PartitionedModel:
        case = CASES[name]
        return hetpart.partition(
            zoo.prepare(case.model, self._folder),
            hardware=f"emulated+{profile}",
            placement="all-cpu",
            shape=dict(case.shape),
            threads=threads,
            access=None if case.access is None else dict(case.access),
        )

    def error(self, name: str, threads: int, profile: str) -> float:
        """Of the prediction from ``profile``, as a part of what was measured."""
        return round(self._predicted(name, threads, profile) / self.least(name, threads) - 1, 4)

    def _predicted(self, name: str, threads: int, profile: str) -> float:
        return self._model(name, threads, profile).plan.prediction.seconds

    def least(self, name: str, threads: int) -> float:
        """Seconds that the case takes undisturbed, on average over the kinds of its inputs."""
        return mean(measured.least(self._noting[threads]) for measured in self.measured[name, threads])

    def row(self, name: str, threads: int, profile: str) -> dict[str, Any]:
        """Prediction beside measurement."""
        model, kinds = self._model(name, threads, profile), self.measured[name, threads]
        predicted = model.plan.prediction.seconds
        least, noting = self.least(name, threads), self._noting[threads]
        least_run = mean(min(measured.walls) for measured in kinds)
        walls = [wall for measured in kinds for wall in measured.walls]
        row = {
            "case": name,
            "threads": threads,
            "predicted_seconds": predicted,
            "measured_seconds": least,
            "error": round(predicted / least - 1, 4),
            "error_to_least_run": round(predicted / least_run - 1, 4),
            "median_seconds": median(walls),
            "least_seconds": least_run,
            "pieces_seconds": mean(measured.pieces.seconds(noting) for measured in kinds),
            "noting_seconds": noting.node,
            "runs": len(walls),
            "kinds_of_inputs": len(kinds),
            **_ranks(model, _averaged([measured.nodes for measured in kinds]), _by_round(kinds)),
        }
        say(
            f"latency_error: {name}, threads {threads}: {1e3 * predicted:.3f} ms predicted, {1e3 * least:.3f} taken, "
            f"{row['error']:+.1%}, median {1e3 * row['median_seconds']:.3f}, ranks {row['rank_correlation']} "
            f"over {row['paired_share']:.1%} of the time"
        )
        return row


def _feeds(model: PartitionedModel, case: Case) -> list[dict[str, Any]]:
    """Random inputs; masks say that every position counts, as a tokenizer's do for a text of full length."""
    made = [
        {
            name: np.ones_like(array) if "mask" in name else array
            for name, array in random_feeds(model.plan.inputs, seed).items()
        }
        for seed in range(FEEDS)
    ]
    if not case.rows:
        return made
    shape = made[0]["ids"].shape
    count = max(FEEDS, LOOKED_UP // prod(shape))
    rows = np.random.default_rng(0).integers(0, case.rows, (count, *shape), np.int64)
    return [made[place % FEEDS] | {"ids": rows[place]} for place in range(count)]


def _walls(model: PartitionedModel, feeds: Sequence[Mapping[str, Any]], threads: int, seconds: float) -> list[float]:
    with model.session(emulate=True, threads=threads) as session:
        return _timed(lambda feed: session.run(None, feed), feeds, seconds)


def _timed(run: Any, feeds: Sequence[Any], seconds: float) -> list[float]:
    found: list[float] = []
    fetch_mapped_weights()
    for feed in feeds[:FEEDS]:
        run(feed)
    start = perf_counter()
    while len(found) < FEWEST_RUNS or (len(found) < MOST_RUNS and perf_counter() - start < seconds):
        feed = feeds[len(found) % len(feeds)]
        began = perf_counter()
        run(feed)
        found.append(perf_counter() - began)
    return found


def _nodes(
    model: PartitionedModel, feeds: Sequence[Mapping[str, Any]], threads: int, seconds: float, kinds: int
) -> list[Profiled]:
    """What ONNX Runtime's profile says of every node, by kind of inputs."""
    (own,) = cut_models(model.imported.proto, model.plan)
    weights = Path(model.plan.model.folder) if model.plan.model.folder else None
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(SessionSettings(threads=threads), weights)
        profile_into(options, Path(folder))
        session = onnxruntime.InferenceSession(own.SerializeToString(), options, providers=["CPUExecutionProvider"])
        _timed(lambda feed: session.run(None, feed), feeds, seconds)
        return profiled_nodes(session, Path(folder), kinds)


def _by_round(kinds: Sequence[_Measured]) -> list[tuple[Node, ...]]:
    return [_averaged(nodes) for nodes in zip(*(measured.rounds for measured in kinds), strict=True)]


def _averaged(kinds: Sequence[Mapping[str, Node]]) -> tuple[Node, ...]:
    """Every node, with its mean seconds over the kinds of inputs."""
    first, *_ = kinds
    return tuple(
        replace(
            node,
            seconds=mean(nodes[name].seconds for nodes in kinds),
            least=mean(nodes[name].least for nodes in kinds),
        )
        for name, node in first.items()
    )


def _ranks(model: PartitionedModel, nodes: Sequence[Node], rounds: Sequence[Sequence[Node]]) -> dict[str, Any]:
    """How well the predicted order of kernels is the measured one, over which part of the profiled time."""
    graph, host = model.costs.graph, model.costs.machine.devices[HOST]
    fusions = find_fusions(graph)
    timed = measured_kernels(graph, host, fusions, likenesses(graph, fusions))
    if not timed:
        lane = lane_of(host)
        kernels = session_kernels(graph, range(len(graph.ops)), fusions, lane, frozenset(graph.outputs))
        timed = tuple(TimedKernel(kernel, UNMEASURED) for kernel in kernels)
    named = [one.kernel for one in timed]
    pairing = paired(named, graph, nodes)
    ran = [place for place, pair in enumerate(pairing.pairs) if pair.nodes]
    predicted = [_seconds(timed[place], model) for place in ran]
    measured = _net_seconds(pairing, ran)
    alone = [_net_seconds(paired(named, graph, of), ran) for of in rounds]
    told = [place for place, seconds in enumerate(measured) if seconds >= TOLD]
    return {
        "rank_correlation": rank_correlation(predicted, measured),
        "rank_correlation_of_told": rank_correlation([predicted[i] for i in told], [measured[i] for i in told]),
        "rank_correlation_of_kinds": kinds_correlation(_kinds(named, graph, ran), measured),
        "rank_correlation_of_rounds": _least_correlation(alone),
        "told_kernels": len(told),
        "paired_share": round(pairing.paired_share, 4),
        "ranked_kernels": len(ran),
    }


def _kinds(kernels: Sequence[Kernel], graph: Graph, places: Sequence[int]) -> list[tuple[object, ...]]:
    """What kernels are told apart by at best: ops, shapes of what they make, and ops of the kernel before."""
    types = [tuple([graph.ops[op].op_type for op in kernel.ops]) for kernel in kernels]
    shapes = [
        tuple([graph.values[v].shape for op in kernel.ops[-1:] for v in graph.ops[op].results]) for kernel in kernels
    ]
    return [(types[place], shapes[place], types[place - 1] if place else ()) for place in places]


def _net_seconds(pairing: Pairing, places: Sequence[int]) -> list[float]:
    return [pairing.net_seconds(pairing.pairs[place]) for place in places]


def _least_correlation(rounds: Sequence[Sequence[float]]) -> float | None:
    """Of any two rounds; nothing of one."""
    found = [rank_correlation(first, second) for first, second in combinations(rounds, 2)]
    return min((known for known in found if known is not None), default=None)


def _seconds(timed: TimedKernel, model: PartitionedModel) -> float:
    """Those of its ops where no table of the calibration speaks of the kernel."""
    if timed.taken.known is not None:
        return timed.taken.known
    return sum(model.costs.ops[op].seconds[HOST] for op in timed.kernel.ops)


if __name__ == "__main__":
    main()
