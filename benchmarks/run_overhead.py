"""What hetpart adds to ONNX Runtime in each run, and what each further partition and each further copy costs.

    python -m benchmarks.run_overhead [--seconds 2]

One partition: ``hetpart.Session.run`` takes turns with bare ONNX Runtime sessions, one of the partition's own model and
one of the uncut file; what is added is the median of the differences within a turn, over a few sessions of each, with
the interval that holds the true median in 95 of 100 cases, whatever the differences are distributed like. Reach: 1 % or
5 µs; where the interval lies on both sides of that, the row says that it is not certain. On an emulated accelerator a
run copies its inputs to buffers of the accelerator's own and its results back, which is what emulation is, and its
session keeps to a budget. Two more rivals tell these apart there: a bare session that is as thrifty, and one with
the same copies around it, beside which the reach is judged.

More partitions: a chain of 50
tiny ops in 1 to 50 partitions of one device, and on two devices by turns; the slope of the median is the cost of one
more. Reach: 15 µs for one on the same device; 1 ms for all 50 on two devices by turns. Under emulation a copy between
devices is a real one, in the host's memory: what memory alone takes for as many bytes stands beside it.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist, median
from timeit import Timer
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import hetpart
from benchmarks import chains, zoo
from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.runtime.sessions import SessionSettings, session_options
from hetpart.runtime.thrifty import spared

if TYPE_CHECKING:
    from hetpart import PartitionedModel, Session

PROVIDER = "CPUExecutionProvider"
REACH_MICROSECONDS = 5.0
REACH_SHARE = 0.01
REACH_PARTITION_MICROSECONDS = 15.0
REACH_FIFTY_MICROSECONDS = 1000.0
MODELS = ("wide-and-deep-tiny", "bert-tiny", "wide-and-deep", "shufflenet")
PARTITIONS = (1, 2, 5, 10, 20, 50)
WIDTHS = (64, 262_144)
"""Floats in the chains' vector: 256 B, and 1 MiB."""
WARM_UP = 10
ROUNDS = (40, 3000)
"""At least, and at most."""
CONFIDENCE = 0.95
INSTANCES = 3
"""Of every session: equal ones differ by a per cent, by where their memory lies."""
THRIFTY = "the partition's model, as thrifty"
"""The rival whose session gives every buffer back at once, as those of devices with a budget do."""
COPIED = f"{THRIFTY}, and the copies alone"
"""The rival that copies what emulation copies, too."""
COLD_BYTES = 256 * 2**20
"""More than caches hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A one-partition session and the bare sessions it is compared with."""

    session: Session
    rivals: dict[str, onnxruntime.InferenceSession | Copying]
    feeds: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Copying:
    """A bare session that is fed from buffers of its own, with copies of what it makes."""

    session: onnxruntime.InferenceSession
    buffers: dict[str, np.ndarray[Any, Any]]

    @classmethod
    def of(cls, session: onnxruntime.InferenceSession, feeds: dict[str, Any]) -> Copying:
        return cls(session, {name: np.empty_like(array) for name, array in feeds.items()})

    def run(self, _: None, feeds: dict[str, Any]) -> list[Any]:
        for name, buffer in self.buffers.items():
            buffer[...] = feeds[name]
        return [made.copy() for made in self.session.run(None, self.buffers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of every comparison, about")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--models", nargs="*", default=MODELS, metavar="NAME")
    arguments = parser.parse_args()
    facts = machine_facts()
    one = _one_partition(arguments.zoo, arguments.models, arguments.seconds)
    slopes = {
        name: _partitions(name, device, width, arguments.seconds)
        for width in WIDTHS
        for name, device in (("same host", "cpu"), ("same accelerator", chains.ACCELERATOR), ("taking turns", ""))
        for name in (f"{name}, {4 * width} B",)
    }
    copies = {f"{4 * width} B": _memory_alone(4 * width) for width in WIDTHS}
    fifty: Spread = slopes[f"taking turns, {4 * WIDTHS[0]} B"]["run_microseconds"][PARTITIONS[-1]]
    small = [row for name, row in slopes.items() if name.startswith("same")]
    emit(
        "run_overhead",
        {
            "machine": facts,
            "reach": {
                "one_partition": {"microseconds": REACH_MICROSECONDS, "share": REACH_SHARE},
                "one_more_partition_microseconds": REACH_PARTITION_MICROSECONDS,
                "fifty_partitions_microseconds": REACH_FIFTY_MICROSECONDS,
            },
            "reached": {
                "one_partition": all(row["reached"] for row in one if row["device"] == "cpu"),
                "one_emulated_partition": all(row["reached"] for row in one if row["device"] != "cpu"),
                "one_more_partition": all(row["microseconds"] <= REACH_PARTITION_MICROSECONDS for row in small),
                "fifty_partitions": fifty.median <= REACH_FIFTY_MICROSECONDS,
            },
            "fifty_partitions_by_turns_microseconds": fifty,
            "one_partition": one,
            "one_more_partition": slopes,
            "copy_by_memory_alone_microseconds": copies,
        },
    )


def _one_partition(folder: Path, models: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, path, feeds, shape in _subjects(folder, models):
        for device, rule in (("cpu", "all-cpu"), (chains.ACCELERATOR, "all-accelerator")):
            for threads in (1, 0):
                say(f"run_overhead: {name} on {device}, threads {threads or 'as many as cores'}")
                model = hetpart.partition(path, hardware=chains.HARDWARE, placement=rule, shape=shape, threads=threads)
                if len(model.plan.partitions) == 1:
                    subjects = [_subject(model, path, feeds, threads) for _ in range(INSTANCES)]
                    judged = tuple(subjects[0].rivals) if device == "cpu" else (COPIED,)
                    found = _compared(subjects, seconds, judged)
                    rows.append({"model": name, "device": device, "threads": threads, **found})
    return rows


def _subjects(folder: Path, models: Sequence[str]) -> list[tuple[str, Path, dict[str, Any], dict[str, int]]]:
    folder.mkdir(parents=True, exist_ok=True)
    tiny = _tiny(folder / "matmul-64.onnx")
    rows = [("matmul-64", tiny, {"x": np.ones((1, 64), np.float32)}, {})]
    for name in models:
        path = zoo.prepare(name, folder)
        rows.append((name, path, dict(zoo.random_feeds(name, path)), dict(zoo.ZOO[name].shape)))
    return rows


def _tiny(path: Path) -> Path:
    """One product of a vector of 64 floats with a matrix."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy")
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")], "tiny", [x], [y], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def _subject(model: PartitionedModel, path: Path, feeds: dict[str, Any], threads: int) -> Subject:
    from hetpart.plan.cut_models import cut_models

    settings = SessionSettings(emulate=True, threads=threads)
    (own,) = cut_models(model.imported.proto, model.plan)
    rivals: dict[str, onnxruntime.InferenceSession | Copying] = {
        "the partition's model": _bare(own.SerializeToString(), settings, path.parent),
        "the uncut file": _bare(str(path), settings, None),
    }
    if model.plan.partitions[0].device != "cpu":
        rivals[THRIFTY] = _thrifty(own.SerializeToString(), settings, path.parent)
        rivals[COPIED] = Copying.of(_thrifty(own.SerializeToString(), settings, path.parent), feeds)
    return Subject(model.session(emulate=True), rivals, feeds)


def _bare(model: str | bytes, settings: SessionSettings, weights: Path | None) -> onnxruntime.InferenceSession:
    return _session(model, session_options(settings, weights))


def _thrifty(model: bytes, settings: SessionSettings, weights: Path) -> onnxruntime.InferenceSession:
    options = session_options(settings, weights)
    with spared(options, PROVIDER):
        return _session(model, options)


def _session(model: str | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, options, providers=[PROVIDER])


def _compared(subjects: Sequence[Subject], seconds: float, judged: Sequence[str]) -> dict[str, Any]:
    """Every session of ours with one of each rival's, all of them in turns; the pairs' differences together.

    The reach is judged beside the rivals of which ``judged`` has the names.
    """
    feeds, names = subjects[0].feeds, list(subjects[0].rivals)
    sessions = [one for subject in subjects for one in (subject.session, *subject.rivals.values())]
    samples = _microseconds([partial(one.run, None, feeds) for one in sessions], seconds)
    kinds = len(names) + 1
    ours, *theirs = ([taken for one in samples[kind::kinds] for taken in one] for kind in range(kinds))
    rivals = {name: _beside(ours, beside) for name, beside in zip(names, theirs, strict=True)}
    return {
        "hetpart_microseconds": Spread.of(ours),
        "copied_bytes": _moved_bytes(subjects[0]) if COPIED in names else 0,
        "beside": rivals,
        "reached": all(rivals[name]["reached"] for name in judged),
    }


def _moved_bytes(subject: Subject) -> int:
    """Bytes of inputs and results."""
    return sum(array.nbytes for array in (*subject.feeds.values(), *subject.session.run(None, subject.feeds)))


def _microseconds(runs: Sequence[Callable[[], object]], seconds: float) -> list[list[float]]:
    """Of every run, by rival, in as many rounds as ``seconds`` hold."""
    warm = sum(map(median, interleaved(runs, WARM_UP)))
    fewest, most = ROUNDS
    wanted = max(fewest, min(most, int(seconds / warm)))
    return [[1e6 * taken for taken in samples] for samples in interleaved(runs, wanted)]


def _beside(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """What hetpart adds: the median of the differences within a round, in which both see the same machine."""
    differences = sorted(mine - bare for mine, bare in zip(ours, theirs, strict=True))
    added, (low, high) = Spread.of(differences), _interval(differences)
    reach = max(REACH_MICROSECONDS, REACH_SHARE * median(theirs))
    return {
        "bare_microseconds": Spread.of(theirs),
        "added_microseconds": added,
        "added_between_microseconds": [round(low, 2), round(high, 2)],
        "added_share": round(added.median / median(theirs), 5),
        "reached": added.median <= reach,
        "certain": not low <= reach < high,
    }


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    """What holds the median of whatever ``ordered`` was drawn from: how many lie below it is a binomial number."""
    number = len(ordered)
    reach = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * number**0.5 / 2
    return ordered[max(0, int(number / 2 - reach))], ordered[min(number - 1, int(number / 2 + reach) + 1)]


def _memory_alone(nbytes: int) -> dict[str, float]:
    """A copy between two places that lie in a cache, and one between places that lie in none."""
    near = np.ones((2, nbytes), np.uint8)
    far = np.ones((2, max(1, COLD_BYTES // nbytes), nbytes), np.uint8)
    return {"in a cache": _copies(near[:1], near[1:]), "in memory": _copies(*far)}


def _copies(targets: np.ndarray[Any, Any], sources: np.ndarray[Any, Any]) -> float:
    """The median over a few passes, in microseconds a copy."""
    pairs = [(target.ctypes.data, source.ctypes.data) for target, source in zip(targets, sources, strict=True)]
    pairs *= max(1, 1000 // len(pairs))
    nbytes = targets.shape[1]

    def all_of_them() -> None:
        for target, source in pairs:
            ctypes.memmove(target, source, nbytes)

    return round(1e6 * median(Timer(all_of_them).repeat(7, 1)) / len(pairs), 2)


def _partitions(name: str, device: str, width: int, seconds: float) -> dict[str, Any]:
    """The cost of one more partition, by least squares over the medians of two and more: one runs in another way."""
    say(f"run_overhead: one more partition, {name}")
    counts = [count for count in PARTITIONS if device or count > 1]
    sessions = [
        chains.one_device(width, count, device) if device else chains.taking_turns(width, count) for count in counts
    ]
    feeds = {"v0": np.arange(width, dtype=np.float32)}
    for session in sessions:
        np.testing.assert_array_equal(session.run(None, feeds)[0], feeds["v0"] + 0.5 * chains.OPS)
    samples = _microseconds([partial(session.run, None, feeds) for session in sessions], seconds)
    medians = dict(zip(counts, map(median, samples), strict=True))
    slope, error = _slope(medians)
    return {
        "microseconds": round(slope, 2),
        "standard_error": round(error, 2),
        "from_one_to_two_microseconds": round(medians[2] - medians[1], 2) if 1 in medians else None,
        "run_microseconds": dict(zip(counts, map(Spread.of, samples), strict=True)),
    }


def _slope(medians: dict[int, float]) -> tuple[float, float]:
    counts = [count for count in medians if count > 1]
    (slope, _), covariance = np.polyfit(counts, [medians[count] for count in counts], 1, cov=True)
    return float(slope), float(np.sqrt(covariance[0, 0]))


if __name__ == "__main__":
    main()
