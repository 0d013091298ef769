from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hetpart.report.escape import printable
from hetpart.report.page import Evidence, render, write_page
from hetpart.report.page.compact import formed, front_coded
from hetpart.report.page.ops import FIRST, MOST_BYTES
from hetpart.report.page.partition_edges import PartitionGraph
from hetpart.report.text import render as as_text
from hetpart.units import format_bytes, format_seconds
from tests.report.page.pages import FULL, HOSTILE, PLAN, RUN, hostile, large

SECTIONS = (
    "verdict", "partitions", "memory", "timeline", "roofline", "budget", "ops", "baselines", "certificate", "findings",
    "notes",
)  # fmt: skip
VOID = {"meta", "input", "br", "img", "link", "hr"}


class Reader(HTMLParser):
    """Elements, attributes and the text of every section, as a parser that we did not write sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.section = ""
        self.texts: dict[str, list[str]] = {}
        self.raw: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["id"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            kind = self.elements[-1][1].get("type") or self.open[-1]
            self.raw[kind] = self.raw.get(kind, "") + data
        elif data.strip():
            self.texts.setdefault(self.section, []).append(data.strip())

    def words(self, section: str) -> str:
        return " ".join(" ".join(self.texts[section]).split())


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def page() -> Reader:
    return read(render(FULL))


def decoded(coded: list[int | str]) -> list[str]:
    """What ``front_coded`` wrote."""
    texts = [""]
    for shared, rest in zip(coded[::2], coded[1::2], strict=True):
        units = texts[-1].encode("utf-16-le")[: 2 * int(shared)]
        texts.append(units.decode("utf-16-le") + str(rest))
    return texts[1:]


def filled(forms: list[str], reasons: list[str]) -> list[str]:
    """What ``formed`` took apart."""
    texts: list[str] = []
    for reason in reasons:
        form, *figures = reason.split(" ")
        parts = forms[int(form)].split("\0")
        texts.append("".join(part + figure for part, figure in zip(parts, [*figures, ""], strict=True)))
    return texts


def test_sections_stand_in_the_order_that_people_decide_in(page: Reader) -> None:
    found = tuple(attributes["id"] for tag, attributes in page.elements if tag == "section")
    assert found == SECTIONS


def test_the_verdict_is_that_of_the_text_report(page: Reader) -> None:
    text = " ".join(as_text(PLAN, width=200).split())
    for sentence in (
        "Fits: cuda:0 is predicted to need 83.6 MB of 300 MB, 216 MB to spare.",
        "1.52× as fast as fill-in-order",
    ):
        assert sentence in text
        assert sentence in page.words("verdict")
    assert "Headroom on cuda:0 216 MB" in page.words("verdict")


def test_a_plan_over_its_budget_is_called_that() -> None:
    devices = (PLAN.devices[0], replace(PLAN.devices[1], budget_bytes=80_000_000))
    words = read(render(Evidence(replace(PLAN, devices=devices)))).words("verdict")
    assert "Does not fit: cuda:0" in words
    assert "Short on cuda:0 3.64 MB" in words


def test_copies_stand_in_the_graph_with_bytes_and_milliseconds(page: Reader) -> None:
    words = page.words("partitions")
    assert "799 kB in 2 0.087 ms" in words
    assert "256 B 0.010 ms" in words
    assert "#0 3 ops, 310 µs" in words


def test_arrows_lead_from_what_makes_a_value_to_what_reads_it() -> None:
    graph = PartitionGraph.of(PLAN, 48)
    assert [(arrow.source, arrow.target, len(arrow.copies)) for arrow in graph.arrows] == [(1, 2, 2), (2, 3, 1)]
    assert graph.flows == ((0, 1),)


def test_of_many_partitions_the_first_are_drawn_and_the_rest_is_counted() -> None:
    evidence = large(600, 100)
    graph = PartitionGraph.of(evidence.plan, 48)
    assert len(graph.nodes) == 50
    assert max(arrow.target for arrow in graph.arrows) < 49
    assert "52 more are not" in read(render(evidence)).words("partitions")


def test_memory_shows_peak_budget_and_what_is_alive(page: Reader) -> None:
    words = page.words("memory")
    assert "budget 300 MB" in words
    assert "peak 83.6 MB" in words
    assert "262 kB hidden" in words


def test_the_timeline_shows_predicted_and_measured_lanes(page: Reader) -> None:
    words = page.words("timeline")
    assert "measured" in words
    assert "predicted" in words
    assert "Measured 660 µs, predicted 602 µs: 8.7 % below." in words
    assert "Nothing was measured" in read(render(Evidence(PLAN))).words("timeline")


def test_a_run_with_emulated_accelerators_is_not_held_against_the_machine_planned_for() -> None:
    run, emulated = replace(RUN, emulated=True), replace(PLAN.machine, name="emulated+generic-2core")
    words = read(render(Evidence(PLAN, run=run))).words("timeline")
    assert "measured, accelerators emulated on the CPU" in words
    assert f"Predicted 602 µs on {PLAN.machine.name}, which is not what ran" in words
    assert "below" not in words
    same = read(render(Evidence(replace(PLAN, machine=emulated), run=run))).words("timeline")
    assert "Measured 660 µs, predicted 602 µs: 8.7 % below." in same


def test_the_curve_is_drawn_where_it_is_known(page: Reader) -> None:
    words = page.words("budget")
    assert "1 MB more of accelerator memory buys 3.10 µs" in words
    assert "1.30 GB 450 µs 400 µs" in words
    assert "hetpart sweep" in read(render(Evidence(PLAN))).words("budget")


def test_findings_are_listed_the_worst_first(page: Reader) -> None:
    words = page.words("findings")
    assert words.index("HPM001 budget-exceeded") < words.index("HPD003 ping-pong-copy")
    assert "(model.py:7)" in words
    assert "Not asked: the model is gone." in read(render(Evidence(PLAN, no_findings="the model is gone"))).words(
        "findings"
    )
    assert "No findings." in read(render(Evidence(PLAN, findings=()))).words("findings")


def test_the_op_data_is_that_of_the_plan(page: Reader) -> None:
    data = json.loads(page.raw["application/json"])
    names, reasons = decoded(data["names"]), filled(data["forms"], data["reasons"])
    by_op = {decision.op: decision for decision in PLAN.decisions}
    assert names == sorted(by_op)
    for place, name in enumerate(names):
        decision = by_op[name]
        assert data["devices"][data["device"][str(data["partition"][place])]] == decision.device
        assert reasons[data["reason"][place]] == decision.reason
        assert format_seconds(data["time"][place] / 1e6) == format_seconds(decision.seconds[decision.device])
        assert format_bytes(round(data["kilobytes"][place] * 1000)) == format_bytes(decision.bytes_moved)
        assert data["intensity"][place] == pytest.approx(decision.intensity, rel=0.006)


def test_texts_are_the_same_once_they_are_taken_apart() -> None:
    texts = ["", "a", "ab", "ab", "😀x", "😀y", "é", "b" * 300]
    assert decoded(front_coded(texts)) == texts


@pytest.mark.parametrize("name", HOSTILE)
def test_sentences_are_the_same_once_they_are_filled(name: str) -> None:
    texts = [f"bound (intensity 1.5 < 125), 3.0× {printable(name)}", f"{printable(name)} 7", "cuda:0 (7) 7", ""]
    found = formed(texts)
    assert filled(found.forms, found.filled) == texts


def test_only_our_own_style_and_script_are_allowed(page: Reader) -> None:
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        digest = b64encode(sha256(page.raw[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_is_asked_of_a_network_and_no_element_brings_style_or_script_of_its_own(page: Reader) -> None:
    for tag, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on") or name in ("style", "src", "action")}
        assert (attributes.get("href") or "#").startswith("#")
        assert tag not in ("img", "link", "iframe", "object", "embed", "base", "image", "use")


def shape(reader: Reader) -> list[str]:
    """Elements but those around a text, which an empty one need not have, and without modules."""
    return [tag for tag, attributes in reader.elements if tag != "bdi" and attributes.get("class") != "module"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    page = render(hostile(name))
    page.encode()
    reader, usual = read(page), read(render(hostile("usual")))
    assert shape(reader) == shape(usual)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028]", page)
    assert "7 * 7" in page if "7 * 7" in name else "49" not in reader.words("notes")
    json.loads(reader.raw["application/json"])


def test_ten_thousand_ops_take_less_than_a_megabyte_and_none_is_left_out() -> None:
    page = render(large(10_000, 40))
    data = json.loads(read(page).raw["application/json"])
    assert len(page.encode()) < 1_000_000
    assert len(data["time"]) == 10_000
    assert len(set(decoded(data["names"]))) == 10_000


def test_what_has_no_room_is_left_out_and_counted() -> None:
    evidence = large(3_000, 4)
    decisions = tuple(
        replace(d, op=f"{n:05}{'é' * 150}{n}", reason=f"{n} {'ü' * 150}") for n, d in enumerate(evidence.plan.decisions)
    )
    page = render(replace(evidence, plan=replace(evidence.plan, decisions=decisions)))
    reader = read(page)
    data = json.loads(reader.raw["application/json"])
    listed = len(data["time"])
    assert FIRST < listed < 3_000
    assert len(page.encode()) < 1_000_000
    assert len(reader.raw["application/json"].encode()) <= MOST_BYTES
    assert f"The table holds the {listed:,} ops that take longest, of 3,000" in reader.words("ops")


def test_an_empty_model_has_a_page_too() -> None:
    empty = replace(
        PLAN, partitions=(), transfers=(), decisions=(), residencies=(), values=(), buffers=(), baselines=(),
        timeline=None,
        devices=tuple(
            replace(use, peak_bytes=0, weight_bytes=0, buffer_bytes=0, activation_bytes=0, session_bytes=0,
                    alive_at_peak=(), peak_partition=None)
            for use in PLAN.devices
        ),
        prediction=replace(PLAN.prediction, seconds=0.0), notes=(),
    )  # fmt: skip
    reader = read(render(Evidence(empty)))
    assert "The model has no operator" in reader.words("partitions")
    assert tuple(reader.texts) == ("", *SECTIONS)


def test_three_devices_have_a_column_each() -> None:
    third = replace(PLAN.devices[1], device="cuda:1")
    reader = read(render(Evidence(replace(PLAN, devices=(*PLAN.devices, third)))))
    assert "▲ cuda:1" in reader.words("partitions")


def test_equal_evidence_gives_equal_pages(tmp_path: Path) -> None:
    write_page(FULL, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == render(FULL)
