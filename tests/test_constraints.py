"""Constraints as people type them, and plans that keep to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hetpart
from hetpart.config import OpPattern, PinKind
from hetpart.constraints import parse_bindings, parse_colocations, parse_headroom, parse_limits, parse_states
from hetpart.errors import InfeasibleError, InvalidOptionError
from hetpart.units import parse_seconds
from tests.runtime.models import model

TWO_BRANCHES = model("""branches (float[64,64] x) => (float[64,64] z) {
    [a_exp] a = Exp(x) [a_neg] b = Neg(a) [b_abs] c = Abs(x) [b_relu] d = Relu(c) [join] z = Add(b, d)
}""")


def partition(given: Any = TWO_BRANCHES, **options: Any) -> hetpart.PartitionedModel:
    return hetpart.partition(given, **{"hardware": "l4+generic-2core"} | options)


def devices(partitioned: hetpart.PartitionedModel) -> dict[str, str]:
    return {decision.op: decision.device for decision in partitioned.plan.decisions}


def test_every_set_of_ops_is_on_one_device_and_pins_decide_which() -> None:
    found = devices(partition(pin=["a_exp=cpu", "b_abs=cuda"], colocate=["a_*", "b_abs,op:Relu"]))
    assert (found["a_exp"], found["a_neg"], found["b_abs"], found["b_relu"]) == ("cpu", "cpu", "cuda:0", "cuda:0")


def test_an_output_that_is_given_needs_its_bytes_alone() -> None:
    passed = model("passed (float[64] x) => (float[64] x) { }")
    assert partition(passed, io=["x=cuda:0"], budget="1kB").plan.partitions == ()
    with pytest.raises(InfeasibleError, match="needs 256 bytes") as refused:
        partition(passed, io=["x=cuda:0"], budget=1)
    assert refused.value.device == "cuda:0"


@pytest.mark.parametrize("placement", ["random:1", "random:2", "random:3", "fill-in-order"])
def test_sets_hold_under_every_rule(placement: str) -> None:
    found = devices(partition(placement=placement, colocate=["a_exp,b_relu", "b_relu,join"]))
    assert found["a_exp"] == found["b_relu"] == found["join"]


def test_a_set_that_no_device_can_run_names_the_ops_against_it() -> None:
    with pytest.raises(InvalidOptionError, match=r"'a_exp' \(Exp\) cannot run on cuda:0") as refused:
        partition(pin=["a_exp=cpu", "a_neg=cuda"], colocate="a_*")
    assert "'a_neg' (Neg) cannot run on cpu" in refused.value.message
    assert refused.value.hint


def test_a_state_stays_on_one_device() -> None:
    text = (
        "g (float[4] past) => (float[4] present, float[4] y) { [r] a = Neg(past) [u] present = Exp(a) [o] y = Abs(a) }"
    )
    found = devices(partition(model(text), state="past=present", pin=["r=cuda"]))
    assert found["u"] == "cuda:0"
    with pytest.raises(InvalidOptionError, match="'presnt', which is no output of 'g'") as refused:
        partition(model(text), state={"past": "presnt"})
    assert "'present'" in refused.value.hint


ON_HOST, ON_ACCELERATOR = "op:*=cpu", "op:*=cuda"


@pytest.mark.parametrize(
    ("pin", "io", "copies"),
    [
        (ON_ACCELERATOR, {}, {("x", "cpu", "cuda:0"), ("z", "cuda:0", "cpu")}),
        (ON_ACCELERATOR, {"x": "cuda", "z": "cuda:0"}, set()),
        (ON_HOST, {"x": "cpu", "z": "cpu"}, set()),
        (ON_HOST, {"x": "cuda", "z": "cuda"}, {("x", "cuda:0", "cpu"), ("z", "cpu", "cuda:0")}),
    ],
)
def test_inputs_and_outputs_are_handed_over_where_they_are_bound(
    pin: str, io: dict[str, str], copies: set[tuple[str, str, str]]
) -> None:
    plan = partition(io=io, pin=pin).plan
    assert {(copy.value, copy.source, copy.target) for copy in plan.transfers} == copies
    assert plan.prediction.transfer_seconds == pytest.approx(sum(copy.seconds for copy in plan.transfers))
    assert plan.homes == {name: "cuda:0" for name, device in io.items() if device != "cpu"}


def test_what_the_caller_keeps_on_the_accelerator_takes_room_there_to_the_end() -> None:
    least = 2 * 64 * 64 * 4
    assert partition(io={"x": "cuda", "z": "cuda"}, pin=ON_HOST).plan.device("cuda:0").peak_bytes == least
    with pytest.raises(InfeasibleError) as refused:
        partition(io={"x": "cuda", "z": "cuda"}, budget=least - 1)
    assert refused.value.required_bytes >= least


def test_the_report_says_where_outputs_are_handed_over() -> None:
    assert "Handed over on cuda:0: x, z" in partition(io={"x": "cuda", "z": "cuda"}).report()
    assert "Handed over" not in partition().report()


def test_where_a_state_is_bound_its_ops_are() -> None:
    text = model("g (float[4] past) => (float[4] present) { [r] a = Neg(past) [u] present = Exp(a) }")
    found = partition(text, state="past=present", io="present=cuda")
    assert devices(found) == {"r": "cuda:0", "u": "cuda:0"}
    with pytest.raises(InvalidOptionError, match="needs 'u' on cuda:0, a pin puts it on cpu"):
        partition(text, state="past=present", io="present=cuda", pin="u=cpu")


def test_bindings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="contradict each other"):
        partition(io=["z=cuda", "z=cpu"])
    with pytest.raises(InvalidOptionError, match="'zz', which is no input or output"):
        partition(io="zz=cuda")
    with pytest.raises(InvalidOptionError, match="'cuda:7', which the machine"):
        partition(io="z=cuda:7")


def test_what_stays_free_is_taken_off_the_budget_and_told() -> None:
    plan = partition(budget="10GB", headroom="10%").plan
    assert plan.device("cuda:0").budget_bytes == 9_000_000_000
    assert any("headroom 10%: 9.00 GB of 10.0 GB" in note for note in plan.notes)
    assert partition(budget="10GB", headroom="1GB").plan.device("cuda:0").budget_bytes == 9_000_000_000
    with pytest.raises(InvalidOptionError, match=r"more than the budget of cuda:0, 1\.00 GB"):
        partition(budget="1GB", headroom="2GB")


def test_the_hosts_budget_is_a_budget_of_the_host() -> None:
    plan = partition(host_budget="2GB", budget="1GB").plan
    assert [use.budget_bytes for use in plan.devices] == [2_000_000_000, 1_000_000_000]
    assert plan.options["budget"] == "1GB cpu=2GB"
    with pytest.raises(InvalidOptionError, match="contradict each other"):
        partition(host_budget="2GB", budget=["cpu=1GB", "1GB"])


def test_weights_that_the_host_has_no_room_for_go_to_the_accelerator(zoo_model: Callable[[str], Path]) -> None:
    path = zoo_model("wide-and-deep-tiny")
    options: dict[str, Any] = {"shape": "batch=8", "budget": "20GB", "placement": "optimal"}
    free = partition(path, **options)
    assert free.plan.device("cpu").peak_bytes > 1_000_000
    bound = partition(path, host_budget="1MB", **options)
    assert bound.plan.device("cpu").peak_bytes <= 1_000_000
    assert bound.plan.certificate.cost >= free.plan.certificate.cost
    with pytest.raises(InfeasibleError) as refused:
        partition(path, host_budget="1MB", **options | {"budget": "1MB"})
    assert refused.value.required_bytes > 1_000_000


def test_options_that_were_given_are_recorded() -> None:
    options = partition(colocate="a_*", headroom="1GB", max_partitions=9, min_gain="1%", io="z=cuda").plan.options
    given = {name: options[name] for name in ("colocate", "headroom", "max_partitions", "min_gain", "io")}
    assert given == {"colocate": "a_*", "headroom": "1GB", "max_partitions": "9", "min_gain": "1%", "io": "z=cuda"}
    assert not {"colocate", "max_partitions", "state"} & set(partition().plan.options)


@pytest.mark.parametrize(("text", "seconds"), [("20ms", 0.02), ("1.5 s", 1.5), ("300us", 3e-4), ("2µs", 2e-6)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "20", "ms", "-1ms", "1 hour", "5%"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not a time"):
        parse_seconds(text)


def test_patterns_are_those_of_pins() -> None:
    (found,) = parse_colocations("encoder.*, op:Gather,node:/fc")
    assert found.patterns == (
        OpPattern(PinKind.ANY, "encoder.*", "encoder.*"),
        OpPattern(PinKind.OP, "Gather", "op:Gather"),
        OpPattern(PinKind.NODE, "/fc", "node:/fc"),
    )
    assert parse_bindings({"logits": "cuda"})[0].device == "cuda:0"
    assert (parse_states("a=b")[0].given, parse_states("a=b")[0].returned) == ("a", "b")


BAD: dict[str, Callable[[], object]] = {
    "a colocation": lambda: parse_colocations(" , "),
    "a colocation without a name": lambda: parse_colocations("op:"),
    "partitions": lambda: parse_limits(0),
    "a gain": lambda: parse_limits(None, "5"),
    "all of it": lambda: parse_limits(None, "100%"),
    "headroom": lambda: parse_headroom("much"),
    "all of the budget": lambda: parse_headroom("100%"),
    "io": lambda: parse_bindings("logits"),
    "state": lambda: parse_states("=x"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_understood_is_refused_with_a_hint(case: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        BAD[case]()
    assert refused.value.hint


def test_a_colocation_that_matches_nothing_suggests_names() -> None:
    with pytest.raises(InvalidOptionError, match="the colocation 'a_epx' matches no op") as refused:
        partition(colocate="a_epx")
    assert "a_exp" in refused.value.hint


def test_text_stays_on_the_host() -> None:
    with pytest.raises(InvalidOptionError, match="'z=cuda' puts a string on cuda:0"):
        partition(model("g (string[2] x) => (string[2] z) { [s] z = StringNormalizer(x) }"), io="z=cuda")
