"""The roofline plot: what is drawn where, and files that every viewer takes."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import hetpart
from hetpart.cost_model.annotate import Costs, annotate
from hetpart.cost_model.machines import load_machine
from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.report.plots.roofline import plot_roofline
from hetpart.report.plots.roofline_series import roofline_series
from tests.cost_model.build import Builder
from tests.runtime.models import model

HOSTILE = "</text><script>$\\frac$ & \x1b[2J 日本 \u202e"
PRODUCTS = model("""products (float[512,512] x, float[512,512] y, float16[64,64] h)
    => (float[512,512] z, float16[64,64] k) {
    [first] a = MatMul (x, y) [relu] b = Relu (a) [second] c = MatMul (b, x) [turn] z = Transpose (c)
    [half] k = MatMul (h, h)
}""")


@pytest.fixture(scope="module")
def costs() -> Costs:
    return hetpart.annotate(PRODUCTS, hardware="l4+epyc")


def texts(path: Path) -> list[str]:
    """Texts of an SVG, as a viewer shows them."""
    return ["".join(node.itertext()) for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_ops_lie_at_their_intensity_and_rate(costs: Costs) -> None:
    series = roofline_series(costs, 0)
    dots = {dot.name: dot for dot in series.dots}
    assert set(dots) == {"first", "relu", "half"}
    assert (dots["first"].ops, dots["relu"].ops) == (2, 1)
    seconds = costs.ops[0].seconds[0]
    assert dots["first"].rate == pytest.approx(2 * 512**3 / seconds)
    assert dots["first"].intensity == pytest.approx(2 * 512**3 / (3 * 512 * 512 * 4))
    assert series.undrawn == 1
    assert series.seconds == pytest.approx(sum(cost.seconds[0] for cost in costs.ops))


def test_no_dot_lies_above_its_devices_roofs(costs: Costs) -> None:
    for index, device in enumerate(costs.met.devices):
        for dot in roofline_series(costs, index).dots:
            assert dot.rate <= max(device.peak_flops.values())
            assert dot.rate <= dot.intensity * device.bandwidth * 1.01


def test_peaks_are_those_of_the_dtypes_in_use(costs: Costs) -> None:
    accelerator = costs.machine.accelerators[0]
    expected = {dtype: accelerator.peak_flops[dtype] for dtype in ("float32", "float16")}
    assert dict(roofline_series(costs, 1).peaks) == expected


def test_an_svg_names_the_roofs_and_the_largest_ops(costs: Costs, tmp_path: Path) -> None:
    path = tmp_path / "roofline.svg"
    plot_roofline(costs, path)
    shown = texts(path)
    assert "Roofline of products on l4+epyc-genoa+pcie4" in shown
    assert "cuda:0 300 GB/s" in shown
    assert sum(text.startswith("MatMul ×2, ") for text in shown) == 2
    assert any(re.fullmatch(r"half, .* %", text) for text in shown)
    assert any("1 op without arithmetic or bytes moved not drawn" in text for text in shown)


def test_an_svg_is_self_contained_light_and_the_same_every_time(costs: Costs, tmp_path: Path) -> None:
    paths = [tmp_path / "1.svg", tmp_path / "2.svg"]
    for path in paths:
        plot_roofline(costs, path)
    content = paths[0].read_text()
    assert content == paths[1].read_text()
    assert re.findall(r'(?:href|src)="(?!#)', content) == []
    assert "url(http" not in content
    assert "<script" not in content
    assert "fill: #ffffff" in content


def test_a_png_is_one(costs: Costs, tmp_path: Path) -> None:
    plot_roofline(costs, tmp_path / "r.PNG")
    assert (tmp_path / "r.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_hostile_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    costs = hetpart.annotate(PRODUCTS, hardware="l4+epyc")
    ops = tuple(replace(op, name=f"{HOSTILE}{op.id}") for op in costs.graph.ops)
    costs = replace(costs, graph=replace(costs.graph, name=HOSTILE, ops=ops))
    for kind in ("svg", "png"):
        plot_roofline(costs, tmp_path / f"r.{kind}")
    content = (tmp_path / "r.svg").read_text()
    assert "<script" not in content
    assert "\x1b" not in content
    assert any(r"<script>$\frac$ & \x1b[2J 日本 \u202e" in text for text in texts(tmp_path / "r.svg"))


def test_a_graph_without_arithmetic_is_drawn_too(tmp_path: Path) -> None:
    b = Builder()
    b.op("Transpose", [b.value((4, 4))], (4, 4))
    plot_roofline(annotate(b.graph(), load_machine("l4+xeon")), tmp_path / "r.svg")
    assert "cpu float32 7.17 TFLOP/s" in texts(tmp_path / "r.svg")


@pytest.mark.parametrize("name", ["roofline", "roofline.pdf", ".svg"])
def test_other_formats_are_refused(costs: Costs, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOptionError, match="does not say in which format") as caught:
        plot_roofline(costs, tmp_path / name)
    assert caught.value.hint == "end the name in .svg or .png"
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_a_plot_is_an_error_with_a_hint(
    costs: Costs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetpart.report.plots.figure.find_spec", lambda _: None)
    assert importlib.util.find_spec("matplotlib") is not None
    with pytest.raises(HetpartError, match="matplotlib is not installed") as caught:
        plot_roofline(costs, tmp_path / "r.svg")
    assert caught.value.hint == "pip install 'hetpart[plot]'"
