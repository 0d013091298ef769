"""A partitioned model in a notebook, as a frame, and as graphs."""

from __future__ import annotations

import builtins
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.report.notebook import plan_html
from tests.plans import wide_and_deep_plan
from tests.report.exports import planned

PARTITIONED = planned.partitioned()
PLAN = PARTITIONED.plan


class Page(HTMLParser):
    """Texts, and what may not be there; every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_the_verdict_and_every_device() -> None:
    page = Page(PARTITIONED._repr_html_())
    assert page.open == []
    assert page.tags <= {"div", "b", "table", "tr", "th", "td", "span"}
    assert page.attributes == {"style"}
    for use in PLAN.devices:
        assert f"{use.device} ({use.model})" in page.text
    assert f"{len(PLAN.partitions)} partitions, {len(PLAN.transfers)} copies" in page.text


def test_a_notebook_shows_how_much_of_the_budget_is_used() -> None:
    page = Page(plan_html(wide_and_deep_plan()))
    assert "28 %" in page.text
    host, accelerator = wide_and_deep_plan().devices
    short = replace(wide_and_deep_plan(), devices=(host, replace(accelerator, budget_bytes=1)))
    assert "does not fit" in Page(plan_html(short)).text


def test_names_in_a_notebook_are_text_and_its_size_does_not_grow_with_the_model() -> None:
    plan = wide_and_deep_plan()
    hostile = replace(plan, model=replace(plan.model, name="<img src=x onerror=alert(1)>\x1b"))
    page = Page(plan_html(hostile))
    assert "img" not in page.tags
    assert r"<img src=x onerror=alert(1)>\x1b" in page.text
    large = replace(plan, decisions=plan.decisions * 1000, transfers=plan.transfers * 1000, timeline=None)
    assert len(plan_html(large)) < 4000


def test_a_frame_has_a_row_for_every_op() -> None:
    frame = PARTITIONED.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["op"]) == [decision.op for decision in PLAN.decisions]
    by_device: Any = frame.groupby("device")["seconds"].sum()
    assert dict(by_device) == pytest.approx({use.device: use.seconds for use in PLAN.devices})


def test_without_pandas_a_frame_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return imported(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(HetpartError, match="pandas is not installed") as caught:
        PARTITIONED.to_frame()
    assert caught.value.hint == "pip install 'hetpart[frame]'"


def test_ops_in_networkx_know_their_devices() -> None:
    view = PARTITIONED.to_networkx()
    assert nx.is_directed_acyclic_graph(view)
    assert dict(view.nodes(data="device")) == {decision.op: decision.device for decision in PLAN.decisions}
    assert view.number_of_edges() == PARTITIONED.graph.to_networkx().number_of_edges()


def test_partitions_in_networkx_are_acyclic_and_run_in_a_topological_order() -> None:
    view = PARTITIONED.to_networkx("partitions")
    assert nx.is_directed_acyclic_graph(view)
    assert all(source < target for source, target in view.edges())
    assert {op for _, ops in view.nodes(data="ops") for op in ops} == {decision.op for decision in PLAN.decisions}
    for source, target, copied in view.edges(data="copy_seconds"):
        if copied is None:
            assert view.nodes[source]["device"] == view.nodes[target]["device"]
    assert sum(copied is not None for *_, copied in view.edges(data="copy_seconds")) >= 2


def test_other_graphs_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="of cannot be 'values'"):
        PARTITIONED.to_networkx("values")
