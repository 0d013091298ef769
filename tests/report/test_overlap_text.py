from __future__ import annotations

from dataclasses import replace

from hetpart.plan.timeline import Timeline
from hetpart.report.text import render
from tests.plans import wide_and_deep_plan
from tests.report.test_text import section, words

PLAN = wide_and_deep_plan()
TITLE = "Were devices and copies to work at the same time"


def told(**changes: float) -> str:
    assert isinstance(PLAN.timeline, Timeline)
    timeline = replace(PLAN.timeline, **changes)
    return words(section(render(replace(PLAN, timeline=timeline), width=120), TITLE))


def test_both_latencies_stand_beside_their_bounds() -> None:
    text = told(seconds=0.000_5, lower_bound=0.000_48, critical_path=0.000_45)
    assert "one after another 602 µs 541 µs any placement" in text
    assert "overlapped 500 µs 480 µs any order of these partitions and copies" in text
    assert "Overlap would make it 1.20× as fast. However these ops were cut, it would take at least 540 µs." in text
    assert "Critical path 450 µs; busy: cpu 310 µs, cuda:0 195 µs," in text


def test_the_runtime_is_said_to_run_one_after_another() -> None:
    assert "the runtime runs one after another today, so the total above is what a run takes" in told()
    assert "Predicted latency: 602 µs" in render(PLAN)


def test_a_plan_that_gains_nothing_says_what_may() -> None:
    assert "As it is cut, overlap would save nothing; --overlap cuts for it." in told()
    asked = replace(PLAN, options={**PLAN.options, "overlap": "true"})
    text = render(asked, width=120)
    assert "Overlap would save nothing." in text
    assert "--overlap" not in text


def test_where_there_is_one_thing_to_do_nothing_is_said() -> None:
    assert isinstance(PLAN.timeline, Timeline)
    one = replace(PLAN.timeline, tasks=PLAN.timeline.tasks[:1])
    assert TITLE not in render(replace(PLAN, timeline=one))
    assert TITLE not in render(replace(PLAN, timeline=None))
