"""The race for a GPU: entries run, or say why not, and what is told of them follows from what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_race import TRIALS, Answer, Course, fit, in_a_process, on_device, raced, row, summary
from benchmarks.race_entries import ACCELERATE, ALL_CPU, ENTRIES, OURS, OWN_BUDGET, Job
from benchmarks.race_models import RACES, TINY

BUDGET = 1_000_000
JOB = Job(OURS, "vit-h", True, "", BUDGET, 5, emulate=True)
Find = Callable[[str], Path]


def _course(folder: Path, *, emulate: bool) -> Course:
    return Course(
        folder, True, emulate, "emulated" if emulate else None, 1, 2, in_a_process if emulate else on_device()
    )


def test_every_row_has_a_small_variant() -> None:
    assert list(TINY) == list(RACES)
    for name, race in RACES.items():
        assert set(TINY[name].shape) == set(race.shape)
        assert TINY[name].whole == race.whole


@pytest.mark.parametrize("name", ["t5-large", "decoder, decode 1", "vit-h"])
def test_what_accelerate_must_not_split_is_in_the_module(name: str) -> None:
    from benchmarks.models.exported import FAMILIES

    config = dict(TINY[name].model.options)
    module = FAMILIES[config.pop("family")](seed=0, **config).module
    assert {type(part).__name__ for part in module.modules()} >= set(TINY[name].whole)


def test_the_emulated_race_runs_what_needs_no_gpu_and_says_what_does(zoo_model: Find) -> None:
    """A decoder, so that states go from run to run: every entry's answers are the host's."""
    folder = zoo_model("gpt2-tiny").parent
    (told,) = _course(folder, emulate=True).rows("decoder, decode 8", [50])
    entries = told["entries"]
    assert "needs a CUDA device" in entries[OWN_BUDGET]["cannot"]
    assert "accelerate" in entries[ACCELERATE]["cannot"] or "CUDA" in entries[ACCELERATE]["cannot"]
    assert told["budget_bytes"] == told["footprint_bytes"] // 2
    for entry in (OURS, ALL_CPU):
        assert entries[entry]["seconds"].samples == 2
    assert entries[OURS]["peak_bytes"] <= told["budget_bytes"]
    assert told["over_best"] == entries[ALL_CPU]["seconds"].median / entries[OURS]["seconds"].median
    assert told["over_own_budget"] is None
    assert told["largest_difference"] < 1e-4
    found = summary([told])
    assert found["reached"]["over_own_budget"] is None
    assert json.dumps(found, default=str)


@pytest.mark.cuda
def test_the_race_on_a_gpu(zoo_model: Find) -> None:
    folder = zoo_model("gpt2-tiny").parent
    (told,) = _course(folder, emulate=False).rows("decoder, decode 8", [75])
    for entry in (OURS, OWN_BUDGET, ALL_CPU):
        assert told["entries"][entry]["seconds"].samples == 2, told["entries"][entry]
    assert told["largest_difference"] < 5e-3  # TF32


def test_an_entry_that_shares_memory_itself_is_told_until_its_peak_is_near_below_the_budget() -> None:
    """One that uses a third more than it is told, and a constant."""
    told: list[int] = []

    def enter(job: Job) -> Answer:
        told.append(job.budget)
        return {"seconds": [1.0], "peak_bytes": job.budget * 4 // 3 + 50_000}

    job, answer = fit(replace(JOB, entry=OWN_BUDGET), enter)
    assert told[0] == BUDGET
    assert 0.97 * BUDGET <= answer["peak_bytes"] <= BUDGET
    assert job.budget == told[-1]
    assert len(told) <= TRIALS


def test_one_that_never_fits_says_so_and_ours_is_told_the_budget_alone() -> None:
    def enter(job: Job) -> Answer:
        return {"seconds": [1.0], "peak_bytes": 2 * BUDGET + job.budget}

    assert "above the budget" in fit(replace(JOB, entry=ACCELERATE), enter)[1]["cannot"]
    job, answer = fit(JOB, enter)
    assert job == JOB
    assert answer["peak_bytes"] == 3 * BUDGET


def test_rounds_take_turns_and_the_largest_peak_counts() -> None:
    entered: list[str] = []
    taken = {OURS: 1.0, OWN_BUDGET: 2.0, ALL_CPU: 3.0}

    def enter(job: Job) -> Answer:
        if job.entry == ACCELERATE:
            return {"cannot": "no"}
        entered.append(job.entry)
        peak = BUDGET - 1 + (len(entered) > 6 and job.entry == OURS)
        return {"seconds": [taken[job.entry]] * job.runs, "peak_bytes": peak, "digest": [0.0, 1.0, 2.0]}

    answers = raced([replace(JOB, entry=entry) for entry in ENTRIES], enter, rounds=3)
    assert entered[3:] == [OURS, OWN_BUDGET, ALL_CPU, OWN_BUDGET, ALL_CPU, OURS, ALL_CPU, OURS, OWN_BUDGET]
    assert answers[OURS]["seconds"].samples == 15
    told = row(answers, BUDGET)
    assert (told["over_own_budget"], told["over_best"], told["largest_difference"]) == (2.0, 2.0, 0.0)
    assert told["within_budget"]
    assert not row(answers, BUDGET - 1)["within_budget"]


def _row(over_own: float | None, over_best: float | None, within: bool | None) -> dict[str, Any]:
    return {"over_own_budget": over_own, "over_best": over_best, "within_budget": within}


def test_what_is_reached_is_told_of_what_was_measured() -> None:
    found = summary([_row(1.0, 0.99, True), _row(4.0, 1.5, True), _row(None, None, None)])
    assert found["over_own_budget"] == pytest.approx(2.0)
    assert found["over_best_at_worst"] == 0.99
    assert found["reached"] == {"over_own_budget": True, "over_best": True, "within_budget": True}
    assert summary([_row(1.2, 0.9, False)])["reached"] == {
        "over_own_budget": False,
        "over_best": False,
        "within_budget": False,
    }
    assert set(summary([_row(None, None, None)])["reached"].values()) == {None}


def test_a_process_that_ends_otherwise_says_how(tmp_path: Path) -> None:
    answer = in_a_process(replace(JOB, entry=ALL_CPU, path=str(tmp_path / "absent.onnx")))
    assert "ended with 1" in answer["cannot"]
    assert "absent.onnx" in answer["cannot"]
