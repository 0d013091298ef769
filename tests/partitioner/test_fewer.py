"""Limits on cutting: what is returned keeps to them, and is compared with every placement there is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import hetpart
from hetpart.errors import InfeasibleError, InvalidOptionError
from hetpart.report.sentences import best_baseline
from hetpart.request import Request, RequestOptions
from tests.runtime.models import model

LADDER = model("""ladder (float[256,256] x, float[256,256] w, float[256,256] v) => (float[256,256] z) {
    [mm0] a = MatMul(x, w) [cum0] b = Einsum <equation = "ij->ji"> (a) [mm1] c = MatMul(b, v)
    [cum1] d = Einsum <equation = "ij->ji"> (c) [mm2] e = MatMul(d, w) [neg] f = Neg(e) [add] z = Add(f, a)
}""")
PINS = ["mm*=cuda", "cum*=cpu"]


def partition(**options: Any) -> hetpart.PartitionedModel:
    return hetpart.partition(LADDER, **{"hardware": "l4+generic-2core", "budget": "10GB"} | options)


def every_placement(**options: Any) -> list[tuple[int, float]]:
    """Partitions and seconds of every placement of the model's seven ops that fits."""
    request = Request.of("10GB", RequestOptions(**options))
    machine = request.machine("l4+generic-2core")
    priced = request.priced(request.read(LADDER).graph, machine)
    formulation = priced.formulated(request.resolved_budgets(machine).nbytes)
    legal = formulation.problem.legal()
    found: list[tuple[int, float]] = []
    for sides in product((0, 1), repeat=len(priced.graph.ops)):
        placement = np.array(sides, np.int8)
        together = all(len(set(placement[formulation.problem.groups == g])) == 1 for g in formulation.problem.groups)
        if legal[placement, np.arange(len(sides))].all() and together:
            solution = priced.placed(formulation, placement).solution
            found.append((solution.cut.partitions, solution.total_seconds))
    return found


@pytest.mark.parametrize("pin", [[], ["cum0=cpu"], PINS], ids=["free", "one", "all"])
def test_no_placement_of_as_few_partitions_is_faster(pin: list[str]) -> None:
    known = every_placement(pin=pin)
    for most in range(min(partitions for partitions, _ in known), 6):
        plan = partition(pin=pin, max_partitions=most).plan
        best = min(seconds for partitions, seconds in known if partitions <= most)
        assert len(plan.partitions) <= most
        assert plan.prediction.seconds == pytest.approx(best)
        assert plan.certificate.lower_bound <= best


@pytest.mark.parametrize("gain", ["1us", "20us", "1ms", "1%", "20%", "90%"])
def test_every_cut_buys_what_it_must(gain: str) -> None:
    known = every_placement(pin=["cum0=cpu"])
    plan = partition(pin=["cum0=cpu"], min_gain=gain).plan
    seconds, partitions = plan.prediction.seconds, len(plan.partitions)
    for fewer, others in known:
        cuts = partitions - fewer
        if cuts > 0 and gain.endswith("%"):
            assert seconds <= others * (1 - float(gain[:-1]) / 100) ** cuts * (1 + 1e-9)
        elif cuts > 0:
            assert seconds <= others - cuts * {"1us": 1e-6, "20us": 20e-6, "1ms": 1e-3}[gain] + 1e-12


def test_too_few_partitions_say_how_many_there_must_be() -> None:
    least = min(partitions for partitions, _ in every_placement(pin=PINS))
    with pytest.raises(InvalidOptionError, match=rf"1 partition at most: the fewest found .* are {least}") as refused:
        partition(pin=PINS, max_partitions=1)
    assert f"allow {least}" in refused.value.hint


def test_more_memory_is_named_where_it_would_do() -> None:
    pin = ["mm0=cuda"]
    needed = partition(placement="all-accelerator").plan.device("cuda:0").peak_bytes
    assert len(partition(pin=pin, max_partitions=1, budget=needed).plan.partitions) == 1
    lean = partition(pin=["mm0=cuda", "mm1=cpu", "mm2=cpu"]).plan.device("cuda:0").peak_bytes
    with pytest.raises(InfeasibleError, match=r"with .* bytes of cuda:0 it could") as refused:
        partition(pin=pin, max_partitions=1, budget=lean)
    assert lean < refused.value.required_bytes <= needed


def test_limits_are_of_placements_that_hetpart_chooses() -> None:
    assert len(partition(placement="all-cpu", max_partitions=1).plan.partitions) == 1
    with pytest.raises(InvalidOptionError, match="the placement has"):
        partition(placement="all-accelerator", pin=PINS, max_partitions=1)
    with pytest.raises(InvalidOptionError, match="min_gain"):
        partition(placement="all-cpu", min_gain="5%")


def test_without_need_limits_change_nothing() -> None:
    free, limited = partition(), partition(max_partitions=50, min_gain="0%")
    assert free.plan.decisions == limited.plan.decisions
    assert free.plan.certificate == limited.plan.certificate


def test_rules_that_cut_finer_than_allowed_say_so() -> None:
    plan = partition(pin=["cum*=cpu"], max_partitions=3).plan
    beyond = {rule.name: rule.beyond for rule in plan.baselines}
    assert beyond.pop("all-cpu") == ""
    assert set(beyond.values()) == {"cut finer than allowed"}
    best = best_baseline(plan)
    assert best is not None
    assert best.name == "all-cpu"
    assert all(rule.beyond == "" for rule in partition(pin=["cum*=cpu"]).plan.baselines)
