"""The page in a real browser: nothing is asked of a network, keys do what a mouse does, and names stay text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hetpart.report.page import Evidence, write_page
from hetpart.units import format_seconds
from tests.browser import Browser, Page, running
from tests.report.page.pages import FULL, HOSTILE, PLAN, hostile, large

WIDTHS = (360, 1280, 1920)
"""Of a phone, a laptop and a wide screen."""
LARGE = 10_000


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


def test_dark_and_light_are_followed_and_can_be_read(page: Page) -> None:
    grounds = []
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
