"""States count where they stay, and only once: beside the independent checker, brute force and what sessions hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import hetpart
from hetpart.errors import InfeasibleError
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.search.solve import solve
from hetpart.request import Request
from tests.partitioner.force import best_of_all
from tests.partitioner.problems import placements
from tests.partitioner.simulate import simulated_peaks
from tests.runtime.models import assert_same, model, plain
from tests.runtime.test_states import GROWING, READ_LATE, ROWS, SUM, TABLE

WIDE = model("""wide (float[64,64] past, float[64,64] x) => (float[64,64] present, float[64,64] y) {
    [r] a = Add(past, x) [u] present = Exp(a) [m] b = MatMul(present, x) [o] y = Relu(b)
}""")
STATEFUL = {"table": TABLE, "read late": READ_LATE, "sum": SUM, "wide": WIDE}
NAMED: dict[str, dict[str, str]] = {"sum": {"total": "total_out"}}
"""Those whose names alone do not tell."""
BLOCKS = {"table": 1600, "read late": 3200, "sum": 24, "wide": 2 * 64 * 64 * 4}


def problem_of(proto: onnx.ModelProto, budget: int, states: str | Mapping[str, str] = "auto") -> PlacementProblem:
    request = Request.of(None, {"state": states})
    machine = request.machine("emulated")
    return request.priced(request.read(proto).graph, machine).formulated({"cuda:0": budget}).problem


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("placement", ["all-accelerator", "all-cpu", "optimal", "random:1", "random:4"])
def test_a_plan_counts_what_a_session_holds(name: str, placement: str) -> None:
    made = hetpart.partition(STATEFUL[name], hardware="emulated", state=NAMED.get(name, "auto"), placement=placement)
    (given,), (returned,) = made.plan.states, made.plan.states.values()
    home = made.plan.homes.get(given, "cpu")
    assert {copy.source for copy in made.plan.transfers if copy.value == given} <= {home}
    assert not {given, returned} & {buffer.value for buffer in made.plan.buffers if buffer.device == home}
    with made.session(emulate=True) as session:
        assert session.state().nbytes == BLOCKS[name]
        (device,) = session.state().devices.values()
    assert {use.device: use.state_bytes for use in made.plan.devices if use.state_bytes} == {device: BLOCKS[name]}
    simulated = simulated_peaks(made)
    assert all(simulated.get(use.device, 0) <= use.peak_bytes for use in made.plan.devices)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_budget_holds_with_states(name: str) -> None:
    """What is planned under any budget opens, and is not refused for what its states take."""
    whole = hetpart.partition(
        STATEFUL[name], hardware="emulated", state=NAMED.get(name, "auto"), placement="all-accelerator"
    ).plan
    for budget in (whole.device("cuda:0").peak_bytes, whole.device("cuda:0").peak_bytes - 1, BLOCKS[name], 0):
        made = hetpart.partition(STATEFUL[name], hardware="emulated", state=NAMED.get(name, "auto"), budget=budget)
        assert made.plan.device("cuda:0").peak_bytes <= budget
        made.session(emulate=True).close()
    with pytest.raises(InfeasibleError):
        hetpart.partition(
            STATEFUL[name], hardware="emulated", state=NAMED.get(name, "auto"), budget=BLOCKS[name] - 1, pin="*=cuda"
        )


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 2.0])
def test_solver_checker_and_brute_force_agree(name: str, share: float) -> None:
    problem = problem_of(STATEFUL[name], int(2 * BLOCKS[name] * share), NAMED.get(name, "auto"))
    for placement in placements(problem):
        found = cut(problem, placement)
        verdict = check(problem, placement, found)
        assert verdict.legal
        assert verdict.cost == pytest.approx(problem.cost(placement))
        assert list(verdict.peaks) == usage(problem, placement, found).peak.tolist()
    best, solved = best_of_all(problem), solve(problem)
    assert best is not None
    assert solved.lower_bound <= best.cost * (1 + 1e-9)
    assert solved.total_seconds == pytest.approx(best.total_seconds)


@pytest.mark.parametrize("placement", ["all-accelerator", "all-cpu", "random:1", "random:4"])
def test_a_plan_with_states_runs_without_them_too(placement: str) -> None:
    made = hetpart.partition(TABLE, hardware="emulated", state="auto", placement=placement)
    feeds: dict[str, Any] = ROWS | {"new": np.ones((3, 4), np.float32), "table": np.ones((100, 4), np.float32)}
    with hetpart.Session(made.bundle(), emulate=True, state={}) as session:
        for _ in range(2):
            assert_same(session.run(None, feeds), plain(TABLE).run(None, feeds))


def test_states_that_grow_are_estimated() -> None:
    made = hetpart.partition(GROWING, hardware="emulated", shape="T=?", state="auto", placement="all-accelerator")
    use = made.plan.device("cuda:0")
    assert 0 < use.state_bytes <= use.peak_bytes
    assert "States on cuda:0" in made.report()


def test_a_plan_says_where_no_state_is_found() -> None:
    def notes(proto: onnx.ModelProto) -> str:
        return " ".join(hetpart.partition(proto, hardware="emulated", state="auto").plan.notes)

    assert "fit an output are 'x', 'total', and outputs that fit one 'total_out'" in notes(STATEFUL["sum"])
    assert "is of an input's type and shape" in notes(model("g (float[2] x) => (int64[1] y) { y = Shape(x) }"))
    assert "finds no state" not in notes(STATEFUL["table"])
