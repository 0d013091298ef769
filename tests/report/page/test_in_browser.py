"""The page in a real browser: nothing is asked of a network, keys do what a mouse does, and names stay text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from hetpart.plan.model import Transfer
from hetpart.report.page import Evidence, write_page
from hetpart.units import format_seconds
from tests.browser import Browser, Page, running
from tests.report.page.pages import FULL, HOSTILE, PLAN, hostile, large

WIDTHS = (360, 1280, 1920)
"""Of a phone, a laptop and a wide screen."""
LARGE = 10_000
PAPER = 717
"""Of A4 between the margins that Chromium leaves."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_page(FULL, folder / "full.html")
    write_page(large(LARGE, 40), folder / "large.html")
    return folder


@pytest.fixture
def page(browser: Browser, folder: Path) -> Page:
    """The page on a small plan, as a laptop shows it."""
    page = browser.page()
    page.resize(1280)
    page.open(folder / "full.html")
    return page


def rows(page: Page, column: int) -> list[str]:
    """The texts of one column of the table of ops."""
    return page.value(
        f"[...document.querySelectorAll('#ops-table tbody tr')].map(row => row.cells[{column}].innerText.trim())"
    )


def focus(page: Page, selector: str) -> None:
    """Go there with the Tab key alone."""
    for _ in range(80):
        page.press("Tab")
        if page.value(f"document.activeElement.matches({selector!r})"):
            return
    pytest.fail(f"{selector} cannot be reached by Tab")


def test_it_loads_without_a_complaint_or_a_request(page: Page, folder: Path) -> None:
    assert page.complaints() == []
    assert page.requests() == [(folder / "full.html").as_uri()]
    assert page.value("document.querySelectorAll('section').length") == 11


INJECTED = """{
  const script = document.createElement("script");
  script.textContent = "document.title = 'owned'";
  const image = document.createElement("img");
  image.src = "https://example.invalid/x.png";
  document.body.append(script, image);
}"""


def test_the_policy_lets_no_other_script_run(page: Page) -> None:
    page.value(INJECTED)
    assert "owned" not in page.value("document.title")
    assert sum("Content Security Policy" in said for said in page.complaints()) == 2


def test_the_table_is_sorted_by_keyboard(page: Page) -> None:
    assert rows(page, 0) == ["gather", "fc1", "wide_sum", "flatten", "add", "relu"]
    focus(page, "#ops-table th:nth-child(1) button")
    page.press("Enter")
    assert rows(page, 0) == sorted(decision.op for decision in PLAN.decisions)
    assert page.value("document.querySelector('#ops-table th').ariaSort") == "ascending"
    page.press(" ")
    assert rows(page, 0) == sorted((decision.op for decision in PLAN.decisions), reverse=True)


def test_the_table_is_filtered_by_keyboard(page: Page) -> None:
    focus(page, "#ops-filter")
    page.write("stays gather")
    assert sorted(rows(page, 0)) == ["flatten", "wide_sum"]
    assert page.value("document.getElementById('ops-count').value") == f"2 of 6 ops, {format_seconds(30e-6)}"
    for _ in "stays gather":
        page.press("Backspace")
    focus(page, "#ops-device")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert set(rows(page, 2)) == {"■ cuda:0"}


def test_the_script_writes_figures_as_the_page_does_without_it(browser: Browser, folder: Path) -> None:
    page = browser.page()
    page.open(folder / "large.html")
    drawn = [rows(page, column) for column in range(9)]
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(folder / "large.html")
    assert [rows(page, column) for column in range(9)] == [texts[:20] for texts in drawn]


def test_an_op_is_shown_with_its_module_where_its_name_does_not_say_it(browser: Browser, tmp_path: Path) -> None:
    placed = [replace(PLAN.decisions[0], scope="encoder.layer.0", op=op) for op in ("linear_3", "/encoder/layer.0/Add")]
    file = tmp_path / "modules.html"
    write_page(Evidence(replace(PLAN, decisions=tuple(placed))), file)
    page = browser.page()
    for disabled in (False, True):
        page.call("Emulation.setScriptExecutionDisabled", value=disabled)
        page.open(file)
        assert sorted(rows(page, 0)) == ["/encoder/layer.0/Add", "linear_3\nencoder.layer.0"]


def test_ten_thousand_ops_are_shown_in_steps(browser: Browser, folder: Path) -> None:
    page = browser.page()
    page.open(folder / "large.html")
    assert len(rows(page, 0)) == 100
    page.value("document.getElementById('ops-more').focus()")
    page.press("Enter")
    assert len(rows(page, 0)) == 600
    assert page.value("document.getElementById('ops-count').value").startswith("10,000 ops")
    assert page.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["full", "large"])
def test_nothing_is_wider_than_the_screen(browser: Browser, folder: Path, name: str, width: int) -> None:
    page = browser.page()
    page.resize(width)
    page.open(folder / f"{name}.html")
    assert page.value("document.documentElement.scrollWidth") <= width
    over = (
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, nav, .skip')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert page.value(over) == []


BARS = """[...document.querySelectorAll(".bars > p > span, .bars rect, .bars line")].map((e) => {
  const box = e.getBoundingClientRect();
  return [box.left >= 0 && box.right <= innerWidth, e.closest(".scroll") === null];
})"""
HINTS = """[...document.querySelectorAll("figure .scroll, #ops .scroll")].filter((e) => e.scrollWidth > e.clientWidth)
  .map((e) => e.parentNode.querySelector(".sideways").getBoundingClientRect().height > 0)"""


def test_on_a_phone_headroom_and_budget_are_in_view_and_what_scrolls_says_so(page: Page) -> None:
    page.resize(390)
    bars = page.value(BARS)
    assert len(bars) >= 2 * len(PLAN.devices) + 1
    assert all(seen and alone for seen, alone in bars)
    words = page.value("[...document.querySelectorAll('.bars > p > span:last-child')].map(e => e.innerText)")
    assert words[1].endswith("to spare")
    hints = page.value(HINTS)
    assert len(hints) >= 4
    assert all(hints)
    page.resize(1280)
    assert page.value("[...document.querySelectorAll('.sideways')].every(e => !e.getClientRects().length)")


TYPES = ("MatMul", "LayerNormalization", "Gemm", "Add", "Transpose", "ReduceMean")
REASON = (
    "memory-bound on cuda:0 (intensity 61.4 < 125), 3.3× faster there than on cpu; the memory it needs there, "
    "or the copies to it, cost more than it would save"
)
LINES = """[...document.querySelectorAll("#ops-table tbody tr")].flatMap((row) => [1, 2].map((place) => {
  const range = document.createRange();
  range.selectNodeContents(row.cells[place]);
  return new Set([...range.getClientRects()].map((box) => Math.round(box.bottom / 8))).size;
}))"""


@pytest.mark.parametrize("width", [900, 1280])
def test_reasons_wrap_in_view_and_types_stay_whole(browser: Browser, tmp_path: Path, width: int) -> None:
    decisions = tuple(
        replace(decision, op=f"/encoder/layer.{place}/attention/self/MatMul_{place}", op_type=kind, reason=REASON)
        for place, (decision, kind) in enumerate(zip(PLAN.decisions, TYPES, strict=True))
    )
    write_page(Evidence(replace(PLAN, decisions=decisions)), tmp_path / "page.html")
    page = browser.page()
    page.resize(width)
    page.open(tmp_path / "page.html")
    assert page.value("document.querySelector('#ops .scroll').scrollWidth") <= width
    right = "[...document.querySelectorAll('#ops-table td.reason')].map(e => e.getBoundingClientRect().right)"
    assert all(edge <= width for edge in page.value(right))
    assert page.value("[...document.querySelectorAll('#ops-table td.type')].every(e => e.scrollWidth <= e.clientWidth)")
    assert page.value(LINES) == [1] * 2 * len(decisions)


CARDS = """[...document.querySelectorAll("#ops-table tbody tr, #ops-table tbody td, #ops-table th button")].map((e) => {
  const box = e.getBoundingClientRect();
  return box.left >= 0 && box.right <= innerWidth && e.scrollWidth <= e.clientWidth + 1;
})"""
HEADED = """[...document.querySelectorAll("#ops-table tbody tr:first-child td")]
  .map((e) => getComputedStyle(e, "::before").content)"""


@pytest.mark.parametrize("width", [360, 390, 800])
def test_on_a_phone_every_op_is_a_card_in_view(browser: Browser, tmp_path: Path, width: int) -> None:
    decisions = tuple(replace(one, op=f"/encoder/layer.0/{one.op}", reason=REASON) for one in PLAN.decisions)
    write_page(Evidence(replace(PLAN, decisions=decisions)), tmp_path / "page.html")
    page = browser.page()
    page.resize(width)
    page.open(tmp_path / "page.html")
    assert page.value("document.querySelector('#ops .scroll').scrollWidth") <= width
    cells = page.value(CARDS)
    assert len(cells) == 10 * len(decisions) + 9
    assert all(cells)
    heads = ("", "type", "device", "#", "predicted", "elsewhere", "bytes", "FLOP/B", "")
    assert page.value(HEADED) == [f'"{head} "' if head else "none" for head in heads]
    roles = [node["role"]["value"] for node in page.call("Accessibility.getFullAXTree")["nodes"] if "role" in node]
    assert roles.count("columnheader") >= 9
    focus(page, "#ops-table th:nth-child(1) button")
    page.press("Enter")
    assert rows(page, 0) == sorted(one.op for one in decisions)


def test_the_legend_of_all_bars_has_no_device_s_colour(page: Page) -> None:
    swatches = "[...document.querySelectorAll('.bars .swatch.fill')].map(e => getComputedStyle(e).backgroundColor)"
    faint = page.value("getComputedStyle(document.querySelector('.dim')).color")
    assert set(page.value(swatches)) == {faint}


LABELS = """[...document.querySelectorAll("#partitions path.copy")].map((path) => {
  const [label, time] = [...path.parentNode.querySelectorAll("text")].map((text) => text.getBBox());
  const steps = [...Array(201).keys()].map((step) => path.getPointAtLength(path.getTotalLength() * step / 200));
  const under = (box) => steps.filter((at) => at.x > box.x && at.x < box.x + box.width);
  return [...under(label).map((at) => at.y - label.y - label.height), ...under(time).map((at) => time.y - at.y)];
})"""


def test_a_copy_s_line_keeps_off_its_labels(page: Page) -> None:
    gaps = page.value(LABELS)
    assert len(gaps) > 1
    assert all(gap and min(gap) > 1 for gap in gaps)


TEXTS = """[...document.querySelectorAll("#partitions text.figure")].map((text) => {
  const box = text.getBBox();
  return [box.x, box.y, box.x + box.width, box.y + box.height];
})"""


def test_labels_of_copies_to_one_box_keep_off_each_other(browser: Browser, tmp_path: Path) -> None:
    first, second = PLAN.partitions
    given = Transfer("ids", "cpu", "cuda:0", 1024, 1e-5, step=1)
    reads = replace(second, inputs=("ids", *second.inputs))
    plan = replace(PLAN, partitions=(first, reads), transfers=(given, *PLAN.transfers), timeline=None)
    write_page(Evidence(plan), tmp_path / "page.html")
    page = browser.page()
    page.open(tmp_path / "page.html")
    boxes = page.value(TEXTS)
    assert len(boxes) == 6
    for (x1, y1, x2, y2), (u1, v1, u2, v2) in combinations(boxes, 2):
        assert x2 <= u1 or u2 <= x1 or y2 <= v1 or v2 <= y1


def test_dark_and_light_are_followed_and_can_be_read(page: Page) -> None:
    grounds = list[str]()
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        ground, words = page.value(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert contrast(ground, words) >= 7
        faint = page.value("getComputedStyle(document.querySelector('.dim')).color")
        assert contrast(ground, faint) >= 4.5
        grounds.append(ground)
    assert len(set(grounds)) == 2


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    first, second = sorted((luminance(one), luminance(other)))
    return (second + 0.05) / (first + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_on_paper_there_are_no_controls(page: Page) -> None:
    page.prefer("light", "print")
    shown = (
        "['nav', '#ops-controls', 'h1', '#ops-table']"
        ".map(s => getComputedStyle(document.querySelector(s)).display !== 'none')"
    )
    assert page.value(shown) == [False, False, True, True]


def test_a_page_of_paper_is_wide_enough(browser: Browser, tmp_path: Path) -> None:
    decisions = tuple(
        replace(one, op=f"/encoder/layer.0/attention/self/MatMul_{place}", op_type="LayerNormalization", reason=REASON)
        for place, one in enumerate(PLAN.decisions)
    )
    write_page(replace(FULL, plan=replace(PLAN, decisions=decisions)), tmp_path / "page.html")
    page = browser.page()
    page.resize(PAPER)
    page.prefer("light", "print")
    page.open(tmp_path / "page.html")
    assert page.value("document.documentElement.scrollWidth") <= PAPER


def test_hostile_names_are_shown_and_never_obeyed(browser: Browser, tmp_path: Path) -> None:
    page = browser.page()
    for name in HOSTILE:
        write_page(hostile(name), tmp_path / "hostile.html")
        page.open(tmp_path / "hostile.html")
        page.value("document.getElementById('ops-filter').dispatchEvent(new Event('input'))")
        assert page.value("document.title").endswith("hetpart"), name
        assert page.value("document.querySelectorAll('script').length") == 2, name
        assert page.value("document.querySelectorAll('img, main a').length") == 0, name
        assert len(rows(page, 0)) == len(PLAN.decisions), name
        assert page.complaints() == [], name
    assert len({*page.requests()}) == 1


def test_a_name_is_shown_letter_by_letter(browser: Browser, tmp_path: Path) -> None:
    name = "<b>&amp;</b> \"'`{}"
    decisions = tuple(replace(decision, op=f"{decision.op}{name}") for decision in PLAN.decisions)
    write_page(Evidence(replace(PLAN, decisions=decisions)), tmp_path / "named.html")
    page = browser.page()
    page.open(tmp_path / "named.html")
    assert sorted(rows(page, 0)) == sorted(decision.op for decision in decisions)
