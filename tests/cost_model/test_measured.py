from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.roofline import Bound
from hetpart.devices import Machine
from hetpart.rates import KernelRates
from tests.calibration.test_from_profile import made_up_rates
from tests.cost_model.build import Builder


def with_rates(rates: KernelRates) -> Machine:
    machine = load_machine("l4+epyc", threads=1)
    host, *others = machine.devices
    return replace(machine, devices=(replace(host, rates=rates), *others))


def test_a_kernel_that_no_table_speaks_of_starts_as_others_do():
    """A run that streams 256 MB keeps nothing of its nodes: each takes that longer, whoever prices its kernel."""
    build = Builder()
    product = build.op("MatMul", [build.value((1, 8192)), build.weight((8192, 8192))], (1, 8192))
    spread = build.op("Softplus", [build.op("Tanh", [product], (1, 8192))], (1, 8192))
    graph = build.graph(spread)
    warm = replace(made_up_rates(), cold_node_seconds=0.0)
    cold = replace(warm, cold_node_seconds=3e-6)
    before, after = ([cost.seconds[0] for cost in annotate(graph, with_rates(r)).ops] for r in (warm, cold))
    assert "softplus" not in warm.tables
    assert [late - early for early, late in zip(before, after, strict=True)] == pytest.approx([3e-6] * 3)


def test_what_bounds_a_measured_kernel_is_told_by_what_it_took():
    """The start of one that takes little more, whatever its roofs; of a long one the slower roof."""
    build = Builder()
    build.op("Tanh", [build.op("MatMul", [build.value((1, 4)), build.weight((4, 4))], (1, 4))], (1, 4))
    build.op("Tanh", [build.value((1, 2**20))], (1, 2**20))
    rates = replace(made_up_rates(), launch_seconds=1e-6)
    machine = with_rates(rates)
    machine = replace(
        machine, devices=(replace(machine.devices[0], launch_seconds=rates.launch_seconds), *machine.devices[1:])
    )
    graph = build.graph(*(op.results[0] for op in build.ops[1:]))
    assert [cost.estimates[0].bound for cost in annotate(graph, machine).ops] == [
        Bound.LAUNCH,
        Bound.LAUNCH,
        Bound.MEMORY,
    ]
