"""The plots of a plan: every task and every line where it belongs, in files that every viewer takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from hetpart.cli import main
from hetpart.errors import InvalidOptionError
from hetpart.plan.figures import AliveValue
from hetpart.plan.io import write_plan
from hetpart.plan.model import Plan
from hetpart.report.plots.of_plan import PLAN_PLOTS, plot_plan
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
HOSTILE = "</text><script>$\\frac$ & \x1b[2J 日本 \u202e"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(plan: Plan, kind: str, folder: Path) -> str:
    path = folder / f"{kind}.svg"
    plot_plan(plan, kind, path)
    return path.read_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Both plots of ``PLAN``."""
    folder = tmp_path_factory.mktemp("plots")
    return {kind: drawn(PLAN, kind, folder) for kind in PLAN_PLOTS}


def texts(svg: str) -> list[str]:
    """What a viewer shows."""
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(f"{SVG}text")]


def bars(svg: str) -> list[list[float]]:
    """Left and right edges of the bars of every lane, in the picture's own units."""
    groups = [node for node in ET.fromstring(svg).iter(f"{SVG}g") if node.get("id", "").startswith("FillBetween")]
    groups += [node for node in ET.fromstring(svg).iter(f"{SVG}g") if node.get("id", "").startswith("PolyCollection")]
    return [[float(x) for path in group.iter(f"{SVG}path") for x in edges(path.get("d", ""))] for group in groups]


def edges(outline: str) -> tuple[str, str]:
    xs = sorted(re.findall(r"[ML] (-?[\d.]+) ", outline), key=float)
    return xs[0], xs[-1]


def test_the_timeline_names_lanes_and_tasks_and_how_long_it_takes(shared: dict[str, str]) -> None:
    shown = texts(shared["timeline"])
    assert "Timeline of wide_and_deep" in shown
    assert {"cpu", "cuda:0", "cpu → cuda:0", "cuda:0 → cpu"} <= set(shown)
    assert {"#0: 3 ops", "#1: 3 ops"} <= set(shown)
    assert "embedded, 799 kB" in shown
    assert any(text.startswith("Predicted: 602 µs, one task after another. 2 partitions, 3 copies") for text in shown)
    assert not any("no order takes less" in text for text in shown)


def test_bars_are_as_long_as_tasks_take(shared: dict[str, str]) -> None:
    lanes = bars(shared["timeline"])
    found = sorted(right - left for lane in lanes for left, right in zip(lane[::2], lane[1::2], strict=True))
    seconds = sorted([310.0, 77.4, 10.0, 195.0, 10.0])
    scale = found[-1] / seconds[-1]
    assert found == pytest.approx([scale * length for length in seconds], rel=1e-3)


def test_an_overlapped_timeline_shows_its_bound(tmp_path: Path) -> None:
    assert PLAN.timeline is not None
    paying = replace(PLAN, timeline=replace(PLAN.timeline, serial_seconds=1.0, lower_bound=0.0005))
    shown = texts(drawn(paying, "timeline", tmp_path))
    assert "no order takes less than 500 µs" in shown
    assert any("lanes work at the same time" in text for text in shown)


def test_memory_shows_every_device_its_budget_and_what_is_alive(shared: dict[str, str]) -> None:
    shown = texts(shared["memory"])
    assert "Memory of wide_and_deep over one run" in shown
    (accelerator,) = (text for text in shown if text.startswith("cuda:0 (l4)"))
    assert "83.6 MB, 216 MB to spare of 300 MB" in accelerator
    assert "embedded 799 kB, hidden 262 kB" in accelerator
    assert {"weights", "sessions", "values between partitions", "inside the partition that runs"} <= set(shown)
    assert "states" not in shown
    assert "counted 83.6 MB" in shown
    assert "budget 300 MB" not in shown  # it is told in words: drawn, it would leave nothing to see


def test_what_is_alive_is_named_as_far_as_there_is_room(tmp_path: Path) -> None:
    host, accelerator = PLAN.devices
    alive = tuple(AliveValue(f"encoder/layer.{number}/attention/output", 10**6) for number in range(3))
    shown = texts(drawn(replace(PLAN, devices=(host, replace(accelerator, alive_at_peak=alive))), "memory", tmp_path))
    (heading,) = (text for text in shown if text.startswith("cuda:0 (l4)"))
    assert heading.endswith("Alive at the peak: encoder/layer.0/attention/output 1.00 MB")


def test_a_budget_that_is_near_is_a_line(tmp_path: Path) -> None:
    host, accelerator = PLAN.devices
    near = replace(PLAN, devices=(host, replace(accelerator, budget_bytes=90_000_000)))
    assert "budget 90.0 MB" in texts(drawn(near, "memory", tmp_path))
    short = replace(PLAN, devices=(host, replace(accelerator, budget_bytes=80_000_000)))
    assert any("3.64 MB short of 80.0 MB" in text for text in texts(drawn(short, "memory", tmp_path)))


@pytest.mark.parametrize("kind", PLAN_PLOTS)
def test_a_plot_is_self_contained_and_the_same_every_time(kind: str, tmp_path: Path, shared: dict[str, str]) -> None:
    content = shared[kind]
    assert content == drawn(PLAN, kind, tmp_path)
    assert re.findall(r'(?:href|src)="(?!#)', content) == []
    assert "url(http" not in content


@pytest.mark.parametrize("kind", PLAN_PLOTS)
def test_hostile_names_are_text_and_nothing_else(kind: str, tmp_path: Path) -> None:
    host, accelerator = PLAN.devices
    copies = tuple(replace(copy, value=HOSTILE if copy.value == "embedded" else copy.value) for copy in PLAN.transfers)
    plan = replace(
        PLAN,
        model=replace(PLAN.model, name=HOSTILE),
        transfers=copies,
        values=(*PLAN.values, replace(PLAN.values[0], name=HOSTILE)),
        devices=(host, replace(accelerator, alive_at_peak=(AliveValue(HOSTILE, 5),))),
    )
    content = drawn(plan, kind, tmp_path)
    plot_plan(plan, kind, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "<script" not in content
    assert "\x1b" not in content
    assert any(r"<script>$\frac$ & \x1b[2J 日本 \u202e" in text for text in texts(content))


@pytest.mark.parametrize("kind", PLAN_PLOTS)
def test_a_plan_of_nothing_is_drawn_too(kind: str, tmp_path: Path) -> None:
    devices = tuple(
        replace(use, peak_bytes=0, weight_bytes=0, buffer_bytes=0, activation_bytes=0, session_bytes=0, seconds=0.0)
        for use in PLAN.devices
    )
    empty = replace(PLAN, partitions=(), transfers=(), buffers=(), devices=devices, timeline=None)
    assert any("wide_and_deep" in text for text in texts(drawn(empty, kind, tmp_path)))


def test_a_plot_that_a_plan_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="no plot 'roofline'") as caught:
        plot_plan(PLAN, "roofline", tmp_path / "r.svg")
    assert caught.value.hint == "it has timeline and memory"


def report(tmp_path: Path, *args: str) -> Result:
    (tmp_path / "plan.json").write_bytes(write_plan(PLAN))
    return CliRunner(env={"COLUMNS": "120"}).invoke(main, ["report", str(tmp_path / "plan.json"), *args])


def test_report_draws_what_is_asked_for(tmp_path: Path) -> None:
    asked = [f"timeline={tmp_path / 't.svg'}", f"memory={tmp_path / 'a=b.png'}"]
    result = report(tmp_path, "--plot", asked[0], "--plot", asked[1])
    assert result.exit_code == 0
    assert result.stdout.endswith(f"\nWritten to {tmp_path / 't.svg'}\n\nWritten to {tmp_path / 'a=b.png'}\n")
    assert "Timeline of wide_and_deep" in texts((tmp_path / "t.svg").read_text())
    assert (tmp_path / "a=b.png").read_bytes().startswith(b"\x89PNG")


def test_report_prints_json_alone_where_it_draws(tmp_path: Path) -> None:
    result = report(tmp_path, "--json", "--plot", f"memory={tmp_path / 'm.svg'}")
    assert json.loads(result.stdout)["schema"] == "hetpart.report"
    assert (tmp_path / "m.svg").exists()


@pytest.mark.parametrize(
    ("plots", "said"),
    [
        (["t.svg"], "does not say what to draw here: write timeline=FILE or memory=FILE"),
        (["roofline=t.svg"], "does not say what to draw here"),
        (["timeline="], "does not say what to draw here"),
        (["timeline=t.pdf"], "does not say in which format to plot"),
        (["timeline=t.svg", "memory=t.svg"], "two plots cannot both be written to one file"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plots: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = report(tmp_path, *(word for plot in plots for word in ("--plot", plot)))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("command", ["annotate", "sweep"])
def test_commands_with_one_plot_need_no_kind_and_refuse_another(command: str) -> None:
    result = CliRunner().invoke(main, [command, "m.onnx", "--plot", "timeline=t.svg"])
    assert result.exit_code == 2
    assert "does not say what to draw here" in result.stderr
