"""Tables of benchmarks: columns stand under each other, in the order of the rows."""

from __future__ import annotations

import pytest

from benchmarks.table import figure, laid_out, print_table


def test_columns_stand_under_each_other() -> None:
    assert laid_out([["model", "ms"], ["a", "1.25"], ["a long name", "10.5"]]) == [
        "model          ms",
        "a            1.25",
        "a long name  10.5",
    ]


def test_a_table_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"name": figure("name"), "ms": figure("seconds", "{:.1f}", 1e3), "rank": figure("rank", "{:.2f}")}
    print_table(columns, [{"name": "b", "seconds": 0.5, "rank": None}, {"name": "a", "seconds": 0.25, "rank": 0.9}])
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split() for line in err.splitlines()] == [
        ["name", "ms", "rank"],
        ["b", "500.0"],
        ["a", "250.0", "0.90"],
    ]
