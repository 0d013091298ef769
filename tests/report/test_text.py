from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from hetpart.partitioner.scores.gap import speaks_of
from hetpart.plan.model import Plan, ResidencyState, Transfer
from hetpart.report.layout import LEAST_WIDTH
from hetpart.report.page import Evidence
from hetpart.report.page import render as as_page
from hetpart.report.text import print_report, render
from hetpart.units import format_bytes, format_seconds
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
HOSTILE = (
    "[bold red]x[/]",
    "[/]",
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "a\nFits: b",
    "\r\x9b2K",
    "\u202e",
    ":smile:",
    "\udc80",
)


def section(text: str, title: str) -> str:
    """The lines of one section of a report, up to the next empty line."""
    return text.split(f"\n{title}", 1)[1].split("\n\n", 1)[0]


def words(text: str) -> str:
    """``text`` with every run of spaces and line ends as one space."""
    return " ".join(text.split())


def test_the_first_line_says_the_machine_and_how_it_was_chosen() -> None:
    first = render(PLAN, width=120).splitlines()[0]
    assert first == "Machine  l4+generic-2core – no GPU answers here, so l4 with this machine's CPU"


def test_the_verdict_says_by_how_much_it_fits() -> None:
    use = PLAN.device("cuda:0")
    assert f"Fits: cuda:0 is predicted to need {format_bytes(use.peak_bytes)} of 300 MB, 216 MB to spare." in render(
        PLAN
    )


def test_a_plan_over_its_budget_says_by_how_much_it_is_short() -> None:
    devices = (PLAN.devices[0], replace(PLAN.devices[1], budget_bytes=80_000_000))
    text = render(replace(PLAN, devices=devices))
    assert "Does not fit: cuda:0" in text
    assert "3.64 MB short" in text


def test_latency_is_per_device_and_sums_up() -> None:
    rows = [line.split() for line in section(render(PLAN), "Latency").splitlines()[2:]]
    found = {row[0]: row for row in rows}
    assert set(found) == {"cpu", "cuda:0", "copies", "sessions", "total"}
    assert found["total"][1:3] == format_seconds(PLAN.prediction.seconds).split()
    shares = [int(row[row.index("%") - 1].split(".")[0]) for row in rows if "%" in row]
    assert 98 <= sum(shares) <= 100


def test_memory_is_per_device_with_what_is_alive_at_the_peak() -> None:
    memory = words(section(render(PLAN), "Memory"))
    assert "cuda:0 300 MB 83.6 MB 15.5 MB 799 kB 262 kB 67.1 MB 216 MB" in memory
    assert "Alive at the peak of cuda:0 (partition 1), beside the weights: embedded 799 kB, hidden 262 kB" in memory
    assert "Weights: 1 on cpu (1.25 GB); 1 resident on cuda:0 (15.5 MB)" in memory


def test_streamed_weights_are_told_apart() -> None:
    streamed = replace(PLAN.residencies[1], state=ResidencyState.STREAMED)
    text = render(replace(PLAN, residencies=(PLAN.residencies[0], streamed)))
    assert "1 streamed to cuda:0 in every run (15.5 MB)" in words(text)


def test_copies_have_bytes_and_milliseconds() -> None:
    copies = section(render(PLAN), "Copies between devices")
    assert "cpu → cuda:0: 2 copies, 799 kB, 0.087 ms" in copies
    assert "cuda:0 → cpu: 1 copy, 256 B, 0.010 ms" in copies
    assert re.search(r" 799 kB +0.077 +cpu → cuda:0 +before #1 +embedded$", copies, re.MULTILINE)
    assert re.search(r" 256 B +0.010 +cuda:0 → cpu +at the end +score$", copies, re.MULTILINE)


def test_no_copies_say_so_instead_of_an_empty_table() -> None:
    text = render(replace(PLAN, transfers=()))
    assert "Nothing crosses devices." in text
    assert "from → to" not in text


def test_the_largest_ops_come_first_with_device_and_reason() -> None:
    ops = [words(line) for line in section(render(PLAN, width=120), "Largest ops").splitlines()[2:]]
    assert [line.split()[-1] for line in ops[::2]] == ["gather", "fc1", "wide_sum", "flatten", "relu", "add"]
    assert ops[:2] == ["280 µs 11.0 µs cpu Gather gather", "its table of 1.25 GB does not fit the budget"]


def test_ops_that_are_alike_share_a_row() -> None:
    decisions = tuple(replace(PLAN.decisions[i % 2], op=f"op{i}") for i in range(2_000))
    ops = words(section(render(replace(PLAN, decisions=decisions)), "Largest ops"))
    assert "Gather op0 and 999 alike" in ops
    assert "Flatten op1 and 999 alike" in ops


def test_an_op_with_one_kernel_says_that_the_other_device_has_none() -> None:
    decisions = (replace(PLAN.decisions[0], seconds={"cpu": 0.000_28}), *PLAN.decisions[1:])
    assert "no kernel" in render(replace(PLAN, decisions=decisions))


def test_baselines_stand_beside_ours_the_fastest_first() -> None:
    rows = [words(line) for line in section(render(PLAN), "Beside other rules").splitlines()[2:]]
    assert rows == [
        "hetpart 602 µs 1.00× 83.6 MB",
        "fill-in-order 913 µs 1.52× 280 MB",
        "as much as possible on the CPU 4.21 ms 6.99× 0 B",
        "as much as possible on the accelerator – – 1.26 GB does not fit",
    ]


def test_the_best_baseline_that_fits_is_the_one_compared_with() -> None:
    assert "1.52× as fast as fill-in-order" in words(render(PLAN))
    equal = (replace(PLAN.baselines[0], seconds=PLAN.prediction.seconds), *PLAN.baselines[1:])
    assert "the same as fill-in-order" in words(render(replace(PLAN, baselines=equal)))
    on_the_host = (replace(equal[0], name="all-cpu"), *PLAN.baselines[1:])
    text = words(render(replace(PLAN, baselines=on_the_host)))
    assert "the same as putting as much as possible on the CPU, the best other rule" in text
    assert "no other rule found a placement that fits" in words(render(replace(PLAN, baselines=PLAN.baselines[2:])))
    assert "Beside other rules" not in render(replace(PLAN, baselines=()))


def test_a_placement_slower_than_another_rule_is_called_that() -> None:
    """As asked for by name, or at random."""
    faster = (replace(PLAN.baselines[0], seconds=PLAN.prediction.seconds / 1.6), *PLAN.baselines[1:])
    assert "60 % slower than fill-in-order, the best other rule" in words(render(replace(PLAN, baselines=faster)))
    free = (replace(PLAN.baselines[0], seconds=0.0), *PLAN.baselines[1:])
    assert "slower than fill-in-order, which is free" in words(render(replace(PLAN, baselines=free)))


def test_the_certificate_says_bound_gap_price_and_what_it_speaks_of() -> None:
    text = words(section(render(PLAN), "Certificate"))
    assert "No legal placement takes less than 541 µs; this one takes 552 µs: at most 2.1 % above." in text
    assert "1 MB more of accelerator memory buys 3.10 µs" in text
    assert PLAN.certificate.speaks_of in text


def test_a_closed_gap_is_called_optimal() -> None:
    proven = replace(PLAN.certificate, lower_bound=PLAN.certificate.cost, gap=0.0, price=0.0)
    text = words(section(render(replace(PLAN, certificate=proven)), "Certificate"))
    assert "Optimal: no legal placement takes less than 552 µs" in text
    assert "More accelerator memory would make nothing faster." in text


def test_above_the_bound_is_told_in_parts_of_the_bound() -> None:
    far = replace(PLAN.certificate, cost=0.018, lower_bound=0.001, gap=17 / 18)
    assert "takes 18.0 ms: at most 1700 % above." in words(render(replace(PLAN, certificate=far)))
    assert "Within 1700 %" in as_page(Evidence(replace(PLAN, certificate=far)))
    none = replace(PLAN.certificate, lower_bound=0.0, gap=1.0)
    assert "takes 552 µs." in words(render(replace(PLAN, certificate=none)))


def test_memory_is_called_worthless_only_where_that_is_proven() -> None:
    """The best bound may lie at the price 0 with the gap wide open: the price says nothing then."""
    unproven = replace(PLAN.certificate, lower_bound=PLAN.certificate.cost / 10, gap=0.9, price=0.0)
    text = words(section(render(replace(PLAN, certificate=unproven)), "Certificate"))
    assert "make nothing faster" not in text
    assert "with all of the 1.26 GB of its footprint in reach it may be faster" in text
    alive = replace(unproven, lower_bound=PLAN.certificate.cost, gap=0.0, speaks_of=speaks_of(by_moments=True))
    filled = replace(PLAN, certificate=alive)
    assert "known here, for values that are alive fill the budget:" in words(render(filled))
    assert "not known" in as_page(Evidence(filled))
    assert "Optimal: no legal placement, cut as hetpart cuts it, takes less than 552 µs" in words(render(filled))
    whole = replace(PLAN, certificate=unproven, footprint_bytes=299_000_000)
    assert "More accelerator memory would make nothing faster." in render(whole)


def test_notes_are_listed() -> None:
    assert "•  the op 'custom' has no formula" in render(PLAN)
    assert "Notes" not in render(replace(PLAN, notes=()))


def many(plan: Plan, number: int) -> Plan:
    """A plan with ``number`` of everything, under long names."""
    long_name = "/model/encoder/layers.{}/self_attention/output/projection/MatMul_output_0"
    return replace(
        plan,
        partitions=tuple(replace(plan.partitions[i % 2], id=i) for i in range(number)),
        transfers=tuple(Transfer(long_name.format(i), "cpu", "cuda:0", i, i * 1e-6, i) for i in range(number)),
        decisions=tuple(replace(plan.decisions[i % 6], op=long_name.format(i)) for i in range(number)),
    )


def test_long_tables_are_cut_and_say_by_how_much() -> None:
    text = render(many(PLAN, 5000))
    assert "… and 4,980 partitions more" in text
    assert "… and 4,990 smaller copies more" in text
    assert len(text.splitlines()) < 150


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("number", [1, 30, 5000])
def test_nothing_is_wider_than_the_page_and_no_number_is_cut(width: int, number: int) -> None:
    text = render(many(PLAN, number), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text.replace("… and", "")
    assert "1.25 GB" in section(text, "Memory")


def test_a_page_too_narrow_for_the_numbers_is_widened() -> None:
    assert render(PLAN, width=20) == render(PLAN, width=LEAST_WIDTH)
    wide = replace(
        PLAN.devices[1], budget_bytes=8_880_000_000_000, peak_bytes=888_000_000_000, weight_bytes=888_000_000_000,
        buffer_bytes=888_000_000_000, activation_bytes=888_000_000_000, session_bytes=888_000_000_000,
    )  # fmt: skip
    assert section(render(replace(PLAN, devices=(PLAN.devices[0], wide)), width=20), "Memory").count("888 GB") == 5


def test_names_too_long_for_the_page_are_wrapped_whole() -> None:
    name = "/encoder/" + "x" * 300 + "/MatMul"
    decisions = (replace(PLAN.decisions[0], op=name), *PLAN.decisions[1:])
    ops = section(render(replace(PLAN, decisions=decisions)), "Largest ops")
    assert name in "".join(ops.split())


def test_one_of_a_thing_is_singular() -> None:
    one = replace(PLAN, partitions=PLAN.partitions[:1], model=replace(PLAN.model, ops=1))
    text = render(one)
    assert "1 partition " in text
    assert "– 1 op, " in text
    assert not re.search(r"\b1 (ops|partitions|copies)\b", text)


def test_an_empty_model_has_a_report_too() -> None:
    empty = replace(
        PLAN, partitions=(), transfers=(), decisions=(), residencies=(), values=(),
        prediction=replace(PLAN.prediction, seconds=0.0),
    )  # fmt: skip
    text = render(empty)
    assert "The model has no operator to run." in text
    assert "Largest ops" not in text


def hostile_plan(name: str) -> Plan:
    """A plan in which every name a model file can set is ``name``."""
    return replace(
        PLAN,
        model=replace(PLAN.model, name=name, path=name, dimensions={name: 1}),
        machine=replace(PLAN.machine, name=name, origin=name),
        devices=tuple(
            replace(use, model=name, alive_at_peak=tuple(replace(value, name=name) for value in use.alive_at_peak))
            for use in PLAN.devices
        ),
        transfers=tuple(replace(transfer, value=name) for transfer in PLAN.transfers),
        decisions=tuple(replace(decision, op=name, op_type=name, reason=name) for decision in PLAN.decisions),
        partitions=tuple(replace(partition, ops=(name,)) for partition in PLAN.partitions),
        baselines=tuple(replace(baseline, name=name) for baseline in PLAN.baselines),
        certificate=replace(PLAN.certificate, speaks_of=name),
        notes=(name,),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_never_obeyed(name: str) -> None:
    text = render(hostile_plan(name))
    assert not [character for character in text if not (character.isprintable() or character == "\n")]
    assert name.encode("unicode_escape").decode() in text
    assert text.count("\nFits: ") == 1


@given(st.text(min_size=1))
@settings(max_examples=50, deadline=None)
def test_any_name_makes_a_printable_report(name: str) -> None:
    text = render(hostile_plan(name))
    assert not [character for character in text if not (character.isprintable() or character == "\n")]


def test_markup_in_names_is_not_understood_on_a_terminal() -> None:
    file = StringIO()
    print_report(hostile_plan("[blink]x[/blink]"), Console(file=file, force_terminal=True, width=120))
    assert "[blink]x[/blink]" in file.getvalue()
    assert "\x1b[5m" not in file.getvalue()


def test_plain_text_has_no_escape_sequences_and_no_trailing_spaces() -> None:
    text = render(PLAN)
    assert "\x1b" not in text
    assert not re.search(r" $", text, re.MULTILINE)
    assert text.endswith("\n")


def test_an_accelerator_without_ops_is_called_unused() -> None:
    unused = replace(
        PLAN.devices[1], peak_bytes=0, weight_bytes=0, buffer_bytes=0, activation_bytes=0, session_bytes=0, ops=0,
        seconds=0.0, alive_at_peak=(),
    )  # fmt: skip
    text = render(replace(PLAN, devices=(PLAN.devices[0], unused)))
    assert "Fits: cuda:0 is not used; its budget is 300 MB." in text
    assert re.search(r"cuda:0 \(l4\) +0 ops +– +–$", text, re.MULTILINE)
