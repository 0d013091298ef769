from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.plan.run import CheckResult, OutputSpec, RunReport
from hetpart.report.layout import plain
from hetpart.report.run_text import run_parts

MEASURED = RunReport(
    bundle="m.hetpart", runs=20, median_seconds=0.002, min_seconds=0.0018, predicted_seconds=0.0015, partitions=2,
    copies={"cpu->cuda:0": 2, "cuda:0->cpu": 1}, copied_bytes={"cpu->cuda:0": 798_976, "cuda:0->cpu": 256},
    outputs=(OutputSpec("score", "float32", (64, 1)), OutputSpec("n", "int64", ()), OutputSpec("s", "list", None)),
    emulated=False,
)  # fmt: skip


def rows(report: RunReport) -> dict[str, str]:
    """The labelled lines of the report, by label."""
    text = plain(run_parts(report), 200).split("\n\n")[0]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()}


def test_the_median_stands_beside_the_prediction() -> None:
    found = rows(MEASURED)
    assert found["Ran"] == "m.hetpart: 20 times"
    assert found["Measured"] == "2.00 ms in the median, 1.80 ms at best"
    assert found["Predicted"] == "1.50 ms, 25 % below what was measured"
    assert rows(replace(MEASURED, predicted_seconds=0.003))["Predicted"] == "3.00 ms, 50 % above what was measured"


def test_a_single_run_says_that_it_was_the_first() -> None:
    found = rows(replace(MEASURED, runs=1))
    assert found["Ran"] == "m.hetpart: once"
    assert found["Measured"] == "2.00 ms, with all that a first run sets up"


def test_an_emulated_run_is_compared_with_an_emulated_prediction_alone() -> None:
    other = rows(replace(MEASURED, emulated=True, machine="l4+epyc"))
    assert other["Predicted"].startswith("1.50 ms on l4+epyc, which is not what ran")
    assert other["Ran"].endswith("accelerator partitions emulated on the CPU")
    same = rows(replace(MEASURED, emulated=True, machine="emulated+generic-2core"))
    assert same["Predicted"] == "1.50 ms, 25 % below what was measured"


def test_copies_are_counted_each_way() -> None:
    assert rows(MEASURED)["Cut"] == "into 2 partitions, 2 copies cpu → cuda:0 (799 kB), 1 copy cuda:0 → cpu (256 B)"
    alone = replace(MEASURED, partitions=1, copies={}, copied_bytes={})
    assert rows(alone)["Cut"] == "into 1 partition, nothing crosses devices"


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (CheckResult(True, True, 0.0, "", 0.0), "equal to the uncut model, every bit of it"),
        (
            CheckResult(True, False, 2e-6, "score", 1e-5),
            "equal to the uncut model within 1e-05; the largest difference is 2e-06 in score",
        ),
        (
            CheckResult(False, False, 0.5, "sc\nore", 1e-5),
            r"differs from the uncut model; the largest difference is 0.5 in sc\nore, and 1e-05 is allowed",
        ),
        (
            CheckResult(False, True, 1e-9, "score", 0.0),
            "differs from the uncut model; the largest difference is 1e-09 in score, and every bit should agree",
        ),
    ],
)
def test_the_check_says_equal_or_by_how_much_not(check: CheckResult, said: str) -> None:
    assert rows(replace(MEASURED, check=check))["Check"] == said


def test_results_are_listed_with_type_and_shape() -> None:
    text = plain(run_parts(MEASURED), 100)
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["score", "float32", "64×1"],
        ["n", "int64", "scalar"],
        ["s", "list", "–"],
    ]


def test_many_results_are_counted() -> None:
    text = plain(run_parts(replace(MEASURED, outputs=MEASURED.outputs[:1] * 23)))
    assert text.endswith("… and 3 more results\n")
    assert plain(run_parts(replace(MEASURED, outputs=()))).endswith("The model has no output.\n")


def test_written_files_are_named() -> None:
    assert rows(replace(MEASURED, files=("out/a.npy", "out/b.npy")))["Written"] == "out/a.npy, out/b.npy"
