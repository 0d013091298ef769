"""Latency against budget as people ask for it: ranges, machines, targets, tables, JSON and plots."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

import hetpart
from hetpart.budgets import Budget
from hetpart.cli import main
from hetpart.errors import InfeasibleError, InvalidOptionError
from hetpart.whatif.budgets import budget_points, parse_budgets
from tests.partitioner.layers import layered

HARDWARE = "l4+generic-2core"


def sweep(**options: Any) -> hetpart.SweptModel:
    return hetpart.sweep(layered(), **{"hardware": HARDWARE, "budgets": "20MB:36MB"} | options)


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], env={"COLUMNS": "100"})


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import onnx

    path = tmp_path_factory.mktemp("sweep") / "layers.onnx"
    onnx.save(layered(), path)
    return path


def points(text: Any, number: int | None = None, footprint: int = 0) -> list[int]:
    def nbytes(budget: Budget) -> int:
        return int(budget.amount * (10**10 if isinstance(budget.amount, float) else 1))

    return budget_points(parse_budgets(text), number, nbytes, lambda: footprint)


def test_a_range_has_about_a_dozen_round_budgets_and_its_ends() -> None:
    gigabyte = 10**9
    assert points("2GB:24GB") == [n * gigabyte for n in range(2, 25, 2)]
    for low, high in ((0, 1), (0, 469_123_456), (7, 8), (3 * 10**8, 8 * 10**10), (123, 45_678)):
        found = points(f"{low}:{high}")
        assert (found[0], found[-1]) == (low, high)
        assert found == sorted(set(found))
        assert len(found) <= 20
    assert points("4GB:4GB") == [4 * gigabyte]
    assert points("0:10", 6) == [0, 2, 4, 6, 8, 10]
    assert points(None, None, 1000)[-1] == 1000
    assert points("8GB, 2GB,4GB") == points([2 * gigabyte, "4GB", "8GB"]) == [2 * gigabyte, 4 * gigabyte, 8 * gigabyte]


BAD: dict[str, tuple[Any, int | None]] = {
    "backwards": ("4GB:2GB", None),
    "half a range": ("4GB:", None),
    "no size": ("much", None),
    "auto": ("auto", None),
    "a device": ("cuda:0=1GB", None),
    "nothing": (",", None),
    "points of a list": ("1GB,2GB", 5),
    "one point": ("1GB:2GB", 1),
}


@pytest.mark.parametrize("case", BAD)
def test_odd_budgets_are_refused_with_a_hint(case: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        points(*BAD[case])
    assert refused.value.hint


def test_every_point_is_what_partition_says_or_better() -> None:
    found = sweep(points=4)
    (curve,) = found.curves
    assert (curve.device, curve.hardware, len(curve.points)) == ("cuda:0", HARDWARE, 4)
    for point in curve.points:
        plan = hetpart.partition(layered(), hardware=HARDWARE, budget=point.budget_bytes).plan
        assert point.seconds is not None
        assert point.seconds <= plan.prediction.seconds * (1 + 1e-9)
        assert point.lower_bound is not None
        assert point.lower_bound <= plan.certificate.cost * (1 + 1e-9)
    assert all(a.seconds >= b.seconds for a, b in pairwise(curve.points) if a.seconds and b.seconds)


def test_without_budgets_it_goes_from_nothing_to_the_whole_model() -> None:
    (curve,) = sweep(budgets=None).curves
    assert (curve.points[0].budget_bytes, curve.points[0].accelerator_ops) == (0, 0)
    assert (curve.points[-1].accelerator_ops, curve.points[-1].gap) == (5, pytest.approx(0))
    assert curve.points[-1].budget_bytes >= curve.footprint_bytes


def test_headroom_is_kept_free_of_every_budget() -> None:
    plain, careful = (sweep(budgets="30MB,35MB", headroom=free).curves[0] for free in (None, "4MB"))
    less = sweep(budgets="26MB,31MB").curves[0]
    assert [point.budget_bytes for point in careful.points] == [30_000_000, 35_000_000]
    assert [point.seconds for point in careful.points] == [point.seconds for point in less.points]
    assert careful.points[-1].seconds > plain.points[-1].seconds
    target = plain.points[-1].seconds
    needed = [sweep(target=target, headroom=free).curves[0].target for free in (None, "1MB")]
    assert needed[0] is not None
    assert needed[1] is not None
    assert needed[1].budget_bytes == needed[0].budget_bytes + 1_000_000


def test_machines_are_compared_and_the_smallest_budget_is_named() -> None:
    found = sweep(budgets="0:40MB", points=3, hardware=f"{HARDWARE},t4+generic-2core", target="500us")
    assert [curve.hardware for curve in found.curves] == [HARDWARE, "t4+generic-2core"]
    smallest = found.sweep.smallest
    assert smallest is not None
    assert smallest.target is not None
    assert smallest.target.budget_bytes == min(curve.target.budget_bytes for curve in found.curves)
    report = " ".join(found.report().split())
    assert "The smallest budget for 500 µs: " in report
    assert "Target: 500 µs: " in report


def test_budgets_beyond_a_machine_are_its_memory() -> None:
    (curve,) = sweep(budgets="1GB:100GB", points=3).curves
    assert curve.points[-1].budget_bytes == curve.memory_bytes == 24_000_000_000
    assert any("larger budgets are left out" in note for note in curve.notes)


def test_budgets_that_nothing_fits_are_told_from_those_that_something_does() -> None:
    (curve,) = sweep(budgets="1MB,60MB", pin="layer2=cuda").curves
    first, last = curve.points
    assert (first.fits, first.seconds, first.required_bytes is not None, last.fits) == (False, None, True, True)
    assert "does not fit" in sweep(budgets="1MB,60MB", pin="layer2=cuda").report()
    with pytest.raises(InfeasibleError, match=r"fits none of the budgets, the largest being 2\.00 MB") as refused:
        sweep(budgets="1MB,2MB", pin="layer2=cuda")
    assert refused.value.required_bytes == first.required_bytes


def test_another_device_that_lacks_bytes_is_named() -> None:
    """No budget of the accelerator makes room on the host."""
    with pytest.raises(InfeasibleError, match=r"bytes are needed on cpu as far as is found") as refused:
        sweep(budgets="1MB,2MB", host_budget="1kB", pin="layer2=cpu")
    assert refused.value.device == "cpu"
    assert "raise the budget of cpu to " in refused.value.hint


def test_a_target_must_be_a_latency() -> None:
    for target in ("fast", 0, -1.0):
        with pytest.raises(InvalidOptionError):
            sweep(target=target)


def test_the_command_prints_a_table(path: Path) -> None:
    result = invoke("sweep", path, "--hardware", HARDWARE, "--budgets", "20MB:36MB", "--target", "1ms")
    assert result.exit_code == 0
    assert result.stdout.startswith("Model  ")
    text = " ".join(result.stdout.split())
    assert "budget latency ×best bound gap takes parts +1 MB buys" in text
    assert "Target: 1.00 ms: " in text
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_target_that_no_budget_reaches_is_told_by_the_exit_code(path: Path, form: tuple[str, ...]) -> None:
    asked = ("sweep", path, "--hardware", HARDWARE, "--budgets", "20MB,36MB")
    missed = invoke(*asked, "--target", "1us", *form)
    assert missed.exit_code == 1
    assert "No placement reaches 1.00 µs" in missed.stdout or json.loads(missed.stdout)["smallest"] is None
    assert invoke(*asked, "--target", "1s", *form).exit_code == 0


def test_the_command_prints_json(path: Path) -> None:
    result = invoke("sweep", path, "--hardware", HARDWARE, "--budgets", "20MB,36MB", "--target", "1ms", "--json")
    content = json.loads(result.stdout)
    assert (content["schema"], content["version"], content["target_seconds"]) == ("hetpart.sweep", 1, 0.001)
    (curve,) = content["curves"]
    assert [point["budget_bytes"] for point in curve["points"]] == [20_000_000, 36_000_000]
    assert content["smallest"] == {"hardware": HARDWARE, "budget_bytes": curve["target"]["budget_bytes"]}


def test_the_plot_holds_every_machine_and_equal_plots_are_equal_files(path: Path, tmp_path: Path) -> None:
    names = ["first.svg", "second.svg"]
    for name in names:
        asked = ("sweep", path, "--hardware", f"{HARDWARE},t4+xeon", "--budgets", "20MB:36MB", "--points", "3",
                 "--target", "1ms", "--plot", tmp_path / name)  # fmt: skip
        result = invoke(*asked)
        assert (result.exit_code, f"Written to {tmp_path / name}" in result.stdout.replace("\n", "")) == (0, True)
    drawn = (tmp_path / "first.svg").read_bytes()
    assert drawn == (tmp_path / "second.svg").read_bytes()
    texts = {element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")}
    assert {HARDWARE, "t4+xeon", "target 1.00 ms", "Budget of cuda:0"} <= texts
    assert invoke("sweep", path, "--plot", "x.pdf").exit_code == 2


def test_names_from_a_model_cannot_reach_the_terminal(tmp_path: Path) -> None:
    import onnx

    proto = layered()
    proto.graph.name = "evil\x1b[2J"
    onnx.save(proto, tmp_path / "m.onnx")
    result = invoke("sweep", tmp_path / "m.onnx", "--hardware", HARDWARE, "--budgets", "36MB",
                    "--plot", tmp_path / "p.svg")  # fmt: skip
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert b"\x1b" not in (tmp_path / "p.svg").read_bytes()


def test_the_zoo_is_swept(zoo_model: Callable[[str], Path]) -> None:
    found = hetpart.sweep(zoo_model("moe-tiny"), hardware=HARDWARE, shape="tokens=64", points=5)
    assert all(point.gap is not None and 0 <= point.gap < 1 for point in found.curves[0].points)


def test_no_point_is_slower_than_a_plan_by_more_than_its_gap() -> None:
    for point in sweep(budgets="24MB,28MB,32MB,36MB").curves[0].points:
        alone = hetpart.partition(layered(), hardware=HARDWARE, budget=point.budget_bytes)
        assert point.cost is not None
        assert point.gap is not None
        assert point.cost * (1 - point.gap) <= alone.plan.certificate.cost * (1 + 1e-9)
        assert point.seconds == pytest.approx(alone.plan.prediction.seconds)
