"""hetpart's plans on a GPU, beside what else places a model under a memory budget, at equal measured peak.

    python -m benchmarks.gpu_race [--models NAME ...] [--shares 25 50 75 90] [--rounds 3] [--runs 20]
    python -m benchmarks.gpu_race --tiny --emulate

T5-large, a decoder of 1.5 billion parameters (a prompt of 512 tokens, and one token at a time in batches of 1, 8 and
64), ViT-H and DLRM with tables larger than the budget, each at shares of its footprint on the device. Against ONNX
Runtime's own budget partitioning, ONNX Runtime on the host alone, and Accelerate's ``device_map="auto"``. Every entry
runs in a process of its own, all of them in turns. What a process takes of the device is the driver's count while it
lives, less what it was before and less what an empty CUDA session takes. Entries that share memory by a rule of their
own are told to use more or less until their measured peak is as near below the budget as a few trials bring it; ours is
told the budget and nothing else. Reach: 1.3 times as fast as ONNX Runtime's partitioning on the average, 0.98 of the
best at worst, and no peak of ours above its budget.

Where there is no CUDA device, entries that need one say so. ``--emulate`` plays the device on the host, to try the
benchmark itself out: its figures are none of a GPU's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import zoo
from benchmarks.device_peak import device_answers, with_peak
from benchmarks.measure import ROOT, Spread, emit, machine_facts, say
from benchmarks.race_entries import ALL_CPU, EMPTY, ENTRIES, OURS, OWN_BUDGET, SHARES_MEMORY, Job, as_input
from benchmarks.race_models import RACES, TINY, Race

SHARES = (25, 50, 75, 90)
REACH_OVER_OWN_BUDGET, REACH_OVER_BEST = 1.3, 0.98
TRIALS = 4
"""Of how much to tell an entry that shares memory by a rule of its own."""
NEAR = 0.97
"""Of the budget: a peak this near below is equal to it."""
LAST_LINES = 4
_NO_DEVICE = "no CUDA device answers here: run where there is one, or try the benchmark out with --emulate"

Answer = dict[str, Any]
Enter = Callable[[Job], Answer]
"""What an entry took, or ``{"cannot": why}``."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(RACES), choices=list(RACES), metavar="NAME")
    parser.add_argument("--shares", nargs="*", type=int, default=SHARES, metavar="PERCENT", help="of the footprint")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each entry")
    parser.add_argument("--runs", type=int, default=20, help="in each process")
    parser.add_argument("--hardware", help="as of hetpart partition; by default this machine's")
    parser.add_argument("--tiny", action="store_true", help="the small models of the tests")
    parser.add_argument("--emulate", action="store_true", help="play the device on the host")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    arguments = parser.parse_args()
    facts = machine_facts()
    course = Course.of(arguments)
    rows = [row for name in arguments.models for row in course.rows(name, arguments.shares)]
    emit("gpu_race", {"machine": facts, "emulated": arguments.emulate, "tiny": arguments.tiny, **summary(rows)})


@dataclass(frozen=True, slots=True)
class Course:
    """Where and how entries run."""

    folder: Path
    tiny: bool
    emulate: bool
    hardware: str | None
    rounds: int
    runs: int
    enter: Enter

    @classmethod
    def of(cls, given: argparse.Namespace) -> Course:
        hardware = given.hardware or ("emulated" if given.emulate else None)
        enter = in_a_process if given.emulate else on_device() if device_answers() else without_device
        return cls(given.zoo, given.tiny, given.emulate, hardware, given.rounds, given.runs, enter)

    def rows(self, name: str, shares: Sequence[int]) -> Iterator[dict[str, Any]]:
        """A row for every share of the model's footprint."""
        race: Race = (TINY if self.tiny else RACES)[name]
        path = race.path(self.folder)
        footprint = _footprint(path, race, self.hardware)
        for share in shares:
            budget = footprint * share // 100
            job = Job(OURS, name, self.tiny, str(path), budget, self.runs, self.emulate, self.hardware)
            say(f"gpu_race: {name}, {share} % of {footprint:,} bytes")
            answers = raced([replace(job, entry=entry) for entry in ENTRIES], self.enter, self.rounds)
            yield row(answers, budget) | {
                "model": name,
                "file": path.name,
                "shape": dict(race.shape),
                "budget_share": share / 100,
                "budget_bytes": budget,
                "footprint_bytes": footprint,
            }


def _footprint(path: Path, race: Race, hardware: str | None) -> int:
    """Weights and most values with everything on the device."""
    import hetpart

    options: dict[str, Any] = {"state": dict(race.model.states)} if race.model.states else {}
    beyond = hetpart.partition(
        path, placement="all-accelerator", budget="1000TB", hardware=hardware, shape=dict(race.shape), **options
    )
    return beyond.plan.footprint_bytes


def raced(jobs: Sequence[Job], enter: Enter, rounds: int) -> dict[str, Answer]:
    """What every entry took, its seconds over all rounds together; the rounds take turns."""
    fitted = {job.entry: fit(job, enter) for job in jobs}
    found = {entry: answer for entry, (_, answer) in fitted.items()}
    seconds: dict[str, list[float]] = {entry: [] for entry in found}
    for number in range(rounds):
        for entry in _turned([entry for entry, answer in found.items() if "cannot" not in answer], number):
            say(f"gpu_race: {entry}, round {number + 1} of {rounds}")
            answer = enter(fitted[entry][0])
            if "cannot" in answer:
                found[entry] = answer
            else:
                seconds[entry] += answer["seconds"]
                found[entry] = answer | {"peak_bytes": _most(found[entry], answer)}
    return {entry: _told(fitted[entry][0], answer, seconds[entry]) for entry, answer in found.items()}


def _turned(entries: list[str], number: int) -> list[str]:
    """So that none has the better place."""
    start = number % len(entries) if entries else 0
    return entries[start:] + entries[:start]


def _most(one: Answer, other: Answer) -> int | None:
    peaks = [answer["peak_bytes"] for answer in (one, other) if answer.get("peak_bytes") is not None]
    return max(peaks, default=None)


def _told(job: Job, answer: Answer, seconds: list[float]) -> Answer:
    return answer if "cannot" in answer else answer | {"seconds": Spread.of(seconds), "told_bytes": job.budget}


def fit(job: Job, enter: Enter) -> tuple[Job, Answer]:
    """``job`` told so much memory that its measured peak is as near below the budget as a few trials bring it."""
    if job.entry not in SHARES_MEMORY:
        return job, enter(replace(job, runs=1))
    budget, best, told = job.budget, None, job
    for _ in range(TRIALS):
        answer = enter(replace(told, runs=1))
        peak = answer.get("peak_bytes")
        if "cannot" in answer or peak is None:
            return told, answer
        if peak <= budget and (best is None or peak > best[1]["peak_bytes"]):
            best = told, answer
        if NEAR * budget <= peak <= budget:
            break
        told = replace(told, budget=max(1, told.budget + budget - peak))
    return best or (told, {"cannot": f"its peak stays above the budget of {budget:,} bytes in {TRIALS} trials"})


def row(answers: Mapping[str, Answer], budget: int) -> dict[str, Any]:
    """Entries of one model under one budget, and what of them decides."""
    seconds = {entry: answer["seconds"].median for entry, answer in answers.items() if "cannot" not in answer}
    others = [taken for entry, taken in seconds.items() if entry != OURS]
    mine, peak = seconds.get(OURS), answers[OURS].get("peak_bytes")
    return {
        "entries": dict(answers),
        "over_own_budget": seconds[OWN_BUDGET] / mine if mine and OWN_BUDGET in seconds else None,
        "over_best": min(others) / mine if mine and others else None,
        "within_budget": None if peak is None else peak <= budget,
        "largest_difference": _differs(answers),
    }


def _differs(answers: Mapping[str, Answer]) -> float | None:
    """Of the mean, spread and most of the first output from those of the host's, as a share of the most."""
    told = {entry: answer["digest"] for entry, answer in answers.items() if "digest" in answer}
    if ALL_CPU not in told:
        return None
    expected = told[ALL_CPU]
    pairs = ((mine, theirs) for digest in told.values() for mine, theirs in zip(digest, expected, strict=True))
    return max(abs(mine - theirs) for mine, theirs in pairs) / max(map(abs, expected))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All rows, and whether what is to be reached is. ``None`` where nothing was measured."""
    own = [found["over_own_budget"] for found in rows if found["over_own_budget"] is not None]
    best = [found["over_best"] for found in rows if found["over_best"] is not None]
    within = [found["within_budget"] for found in rows if found["within_budget"] is not None]
    mean, worst = exp(fmean(map(log, own))) if own else None, min(best, default=None)
    return {
        "reach": {"over_own_budget": REACH_OVER_OWN_BUDGET, "over_best": REACH_OVER_BEST},
        "over_own_budget": mean,
        "over_best_at_worst": worst,
        "reached": {
            "over_own_budget": None if mean is None else mean >= REACH_OVER_OWN_BUDGET,
            "over_best": None if worst is None else worst >= REACH_OVER_BEST,
            "within_budget": all(within) if within else None,
        },
        "rows": list(rows),
    }


def in_a_process(job: Job) -> Answer:
    """``job`` in a fresh process; one that ends otherwise than it should says how."""
    command = [sys.executable, "-m", "benchmarks.race_entries"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, input=as_input(job))
    if done.returncode == 0:
        return json.loads(done.stdout)
    said = " ".join(done.stderr.split("\n")[-LAST_LINES:]).strip() or "it said nothing"
    return {"cannot": f"its process ended with {done.returncode}: {said}"}


def without_device(job: Job) -> Answer:
    """As ``in_a_process`` where there is no CUDA device."""
    return in_a_process(job) if job.entry == ALL_CPU else {"cannot": _NO_DEVICE}


def on_device() -> Enter:
    """As ``in_a_process``, with the peak of what the process takes of the device, less what an empty session takes."""
    nothing = Job(EMPTY, "", True, "", 0, 0, emulate=False)
    _, empty = with_peak(partial(in_a_process, nothing))

    def enter(job: Job) -> Answer:
        answer, grown = with_peak(partial(in_a_process, job))
        return answer | {"peak_bytes": max(0, grown - empty), "empty_session_bytes": empty}

    return enter


if __name__ == "__main__":
    main()
