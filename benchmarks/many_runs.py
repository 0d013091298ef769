"""One session, many threads, many runs: answers equal to one thread's, and resident memory that stays flat.

    python -m benchmarks.many_runs [--runs 10000] [--threads 8] [--zoo DIR]

Models in several partitions, placed at random, their accelerator emulated, and one in a single partition, which all
threads run at once. Every thread runs feeds that it draws, and compares each answer bit for bit with the one that a
single thread got before. Reach: no difference, and less than 1 % more resident memory at the end than after the first
tenth of the runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

import hetpart
from benchmarks import zoo
from benchmarks.measure import emit, machine_facts, say
from hetpart.runtime.footprint import resident_bytes
from hetpart.runtime.random_feeds import random_feeds

CASES = (("dlrm-tiny", "random:3"), ("control-flow-tiny", "random:1"), ("dlrm-tiny", "all-cpu"))
FEEDS = 16
REACH_GROWTH = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    arguments = parser.parse_args()
    facts = machine_facts()
    cases = [
        _measured(zoo.prepare(name, arguments.zoo), name, placement, arguments.runs, arguments.threads)
        for name, placement in CASES
    ]
    reached = all(case["differences"] == 0 and case["growth"] < REACH_GROWTH for case in cases)
    emit("many_runs", {"machine": facts, "reached": reached, "cases": cases})


def _measured(path: Path, name: str, placement: str, runs: int, threads: int) -> dict[str, Any]:
    say(f"many_runs: {name}, {placement}")
    model = hetpart.partition(path, hardware="emulated", placement=placement, shape=dict(zoo.ZOO[name].shape))
    feeds = [random_feeds(model.plan.inputs, seed) for seed in range(FEEDS)]
    with model.session(emulate=True, threads=1, overlap=True) as session:
        expected = [_bytes(session.run(None, fed)) for fed in feeds]
        differences = [0] * threads

        def work(number: int, count: int) -> None:
            rng = np.random.default_rng(number)
            for _ in range(count):
                drawn = int(rng.integers(FEEDS))
                differences[number] += _bytes(session.run(None, feeds[drawn])) != expected[drawn]

        start = perf_counter()
        _together(work, threads, runs // threads // 10)
        early = resident_bytes() or 0
        _together(work, threads, runs // threads - runs // threads // 10)
        late = resident_bytes() or 0
    return {
        "model": name,
        "placement": placement,
        "partitions": len(model.plan.partitions),
        "runs": runs // threads * threads,
        "threads": threads,
        "seconds": perf_counter() - start,
        "differences": sum(differences),
        "resident_bytes_early": early,
        "resident_bytes_late": late,
        "growth": late / early - 1 if early else 0.0,
    }


def _bytes(results: list[Any]) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in results]


def _together(work: Any, threads: int, count: int) -> None:
    crew = [Thread(target=work, args=(number, count)) for number in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


if __name__ == "__main__":
    main()
