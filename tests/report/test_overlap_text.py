from __future__ import annotations

from dataclasses import replace

from hetpart.plan.timeline import Timeline
from hetpart.report.text import render
from tests.plans import wide_and_deep_plan
from tests.report.test_text import section, words

PLAN = wide_and_deep_plan()
TITLE = "Overlap  "


def told(**changes: float) -> str:
    assert isinstance(PLAN.timeline, Timeline)
    timeline = replace(PLAN.timeline, **changes)
    return words(section(render(replace(PLAN, timeline=timeline), width=120), TITLE))


def test_both_latencies_stand_beside_their_bounds() -> None:
    text = told(seconds=0.000_5, lower_bound=0.000_48, critical_path=0.000_45)
    assert "one after another 602 µs 541 µs any placement" in text
    assert "overlapped 500 µs 480 µs any order of these partitions and copies" in text
    assert "It makes a run 1.20× as fast. However these ops were cut, it would take at least 540 µs." in text
    assert "Critical path 450 µs; busy: cpu 310 µs, cuda:0 195 µs," in text


def test_the_headline_is_what_a_run_takes() -> None:
    assert "a run overlaps where that saves 200 µs or with --overlap, so not here" in told(seconds=0.000_41)
    assert "a run overlaps, unless with --no-overlap" in told(seconds=0.000_40)
    assert PLAN.timeline is not None
    text = words(render(replace(PLAN, timeline=replace(PLAN.timeline, seconds=0.000_40)), width=120))
    assert "latency: 400 µs with devices and copies at work at the same time; one after another 602 µs, 1.52×" in text
    assert "Predicted latency: 602 µs, 1.52×" in render(PLAN)


def test_a_plan_that_gains_nothing_says_what_may() -> None:
    assert "It saves nothing as the model is cut; partition --overlap cuts for it." in told()
    asked = replace(PLAN, options={**PLAN.options, "overlap": "true"})
    text = render(asked, width=120)
    assert "It saves nothing. However" in words(text)


def test_where_there_is_one_thing_to_do_nothing_is_said() -> None:
    assert isinstance(PLAN.timeline, Timeline)
    one = replace(PLAN.timeline, tasks=PLAN.timeline.tasks[:1])
    assert TITLE not in render(replace(PLAN, timeline=one))
    assert TITLE not in render(replace(PLAN, timeline=None))
