from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.budgets import Amount, Auto, Budget, BudgetOption, parse_budget, resolve_budgets
from hetpart.cost_model.machines import load_machine
from hetpart.devices import Device, Machine
from hetpart.errors import InvalidOptionError

L4 = load_machine("l4+epyc")
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "GiB": 2**30}


def with_second_gpu(machine: Machine) -> Machine:
    return replace(machine, devices=(*machine.devices, replace(machine.devices[1], name="cuda:1")))


def accelerator(machine: Machine) -> Device:
    return machine.devices[1]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("16GB", 16_000_000_000),
        ("300kB", 300_000),
        ("12GiB", 12 * 2**30),
        ("4096", 4096),
        (" 1.5 MB ", 1_500_000),
        (".5kb", 500),
        ("0", 0),
        ("80%", Fraction(4, 5)),
        ("12.5 %", Fraction(1, 8)),
        ("100%", Fraction(1)),
        ("auto", Auto.AUTO),
        ("AUTO", Auto.AUTO),
    ],
)
def test_a_budget_is_bytes_or_a_share_or_auto(text: str, amount: Amount) -> None:
    assert parse_budget(text) == (Budget(None, amount, text.strip()),)
    assert parse_budget(["cuda=" + text])[0].device == "cuda:0"
    assert parse_budget(["cuda=" + text])[0].amount == amount


@pytest.mark.parametrize("given", [None, (), []])
def test_no_budget_is_no_budget(given: tuple[()] | list[str] | None) -> None:
    assert parse_budget(given) == ()


def test_a_plain_number_is_bytes() -> None:
    assert parse_budget(300_000) == (Budget(None, 300_000, "300000"),)


@given(number=st.integers(0, 10**9), unit=st.sampled_from(sorted(UNITS)), space=st.sampled_from(["", " ", "  "]))
@settings(deadline=None)
def test_whole_budgets_are_exact(number: int, unit: str, space: str) -> None:
    assert parse_budget(f"{number}{space}{unit}")[0].amount == number * UNITS[unit]


@given(st.text())
@settings(deadline=None)
def test_any_text_is_a_budget_or_an_option_error(text: str) -> None:
    try:
        (budget,) = parse_budget(text)
    except InvalidOptionError:
        return
    assert budget.amount == Auto.AUTO or (isinstance(budget.amount, int | Fraction) and budget.amount >= 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-1GB", "negative"),
        (-1, "negative"),
        ("cuda:0=-5", "negative"),
        ("", "not a size"),
        ("lots", "not a size"),
        ("16 apples", "not a size"),
        ("1e9", "not a size"),
        ("nan", "not a size"),
        ("inf", "not a size"),
        ("101%", "more than the device's memory"),
        ("9" * 5000, "not a size"),
        ("1" + "0" * 400 + ".5GB", "not a size"),
        ("=16GB", "names no device"),
        ("cu da=16GB", "names no device"),
        ("cuda:0=", "no size"),
    ],
)
def test_a_bad_budget_says_what_to_write(text: str | int, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as caught:
        parse_budget(text)
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_budgets_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="contradict"):
        parse_budget(["cuda:0=16GB", "cuda=8GB"])
    assert len(parse_budget(["cuda:0=16GB", "cuda=16e0GB".replace("e0", "")])) == 1


def test_a_budget_that_no_accelerator_is_left_for_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="'cuda:0=70MB' and '60MB' contradict each other"):
        resolve_budgets(parse_budget(["cuda:0=70MB", "60MB"]), L4)
    assert resolve_budgets(parse_budget(["cuda:0=70MB", "70MB", "cpu=1GB"]), L4).nbytes["cuda:0"] == 70_000_000
    two = resolve_budgets(parse_budget(["cuda:0=70MB", "60MB"]), with_second_gpu(L4)).nbytes
    assert (two["cuda:0"], two["cuda:1"]) == (70_000_000, 60_000_000)


def test_a_share_is_of_the_devices_memory() -> None:
    resolved = resolve_budgets(parse_budget("80%"), L4)
    assert resolved.nbytes == {"cuda:0": accelerator(L4).memory_bytes * 4 // 5}
    assert resolved.notes == ()


def test_auto_is_free_memory_less_five_percent() -> None:
    resolved = resolve_budgets(parse_budget("auto"), L4, 10_000_000_000)
    assert resolved.nbytes == {"cuda:0": 9_500_000_000}
    assert resolved.notes == ()


def test_auto_without_a_gpu_takes_the_profiles_memory_and_says_so() -> None:
    resolved = resolve_budgets((), L4, None)
    assert resolved.nbytes == {"cuda:0": accelerator(L4).memory_bytes * 95 // 100}
    assert "does not answer" in resolved.notes[0]
    assert "l4" in resolved.notes[0]


def test_free_memory_is_asked_of_each_device_by_name() -> None:
    machine = with_second_gpu(L4)
    resolved = resolve_budgets((), machine, {"cuda:0": 1000, "cuda:1": 2000}.get)
    assert resolved.nbytes == {"cuda:0": 950, "cuda:1": 1900}


def test_auto_never_exceeds_the_memory_of_the_machine_planned_for() -> None:
    resolved = resolve_budgets((), L4, 141_000_000_000)
    assert resolved.nbytes == {"cuda:0": accelerator(L4).memory_bytes * 95 // 100}


def test_a_budget_without_a_device_is_of_every_accelerator_that_has_none_of_its_own() -> None:
    budgets = parse_budget(["1GB", "cuda:1=2GB", "cpu=3GB"])
    resolved = resolve_budgets(budgets, with_second_gpu(L4))
    assert resolved.nbytes == {"cpu": 3_000_000_000, "cuda:0": 1_000_000_000, "cuda:1": 2_000_000_000}


def test_a_budget_above_the_devices_memory_is_cut_to_it_and_says_so() -> None:
    resolved = resolve_budgets(parse_budget("1TB"), L4)
    assert resolved.nbytes == {"cuda:0": accelerator(L4).memory_bytes}
    assert "more than the 24.0 GB" in resolved.notes[0]


def test_a_budget_of_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match="'cuda:7'") as caught:
        resolve_budgets(parse_budget("cuda:7=1GB"), L4)
    assert "cpu, cuda:0" in caught.value.hint


def test_a_budget_without_an_accelerator_is_refused_unless_it_is_zero() -> None:
    host_only = replace(L4, devices=L4.devices[:1])
    assert resolve_budgets(parse_budget("0"), host_only).nbytes == {}
    assert resolve_budgets((), host_only).nbytes == {}
    with pytest.raises(InvalidOptionError, match="has none"):
        resolve_budgets(parse_budget("1GB"), host_only)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5", "less than a byte"),
        (0.5, "no whole number of bytes"),
        (2.5e9 + 0.5, "no whole number of bytes"),
        (float("nan"), "not a size"),
        ({"cuda:0": 0.5}, "less than a byte"),
        ("٣GB", "not a size"),
        ("1e8", "not a size"),
        ("cuda:0=", "gives cuda:0 no size"),
    ],
)
def test_odd_budgets_are_refused_for_what_they_are(text: BudgetOption, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as refused:
        parse_budget(text)
    assert "--budget" in refused.value.hint


def test_petabytes_are_read() -> None:
    assert [budget.amount for budget in parse_budget(["10PB", "cpu=1PiB"])] == [10**16, 2**50]
