from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

import hetpart
from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.likeness import likenesses
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.measured import measured_kernels
from hetpart.cost_model.roofline import Bound
from hetpart.devices import Machine
from hetpart.graph.ir import Graph, Shape
from hetpart.rates import KernelRates, Starts
from tests.calibration.test_from_profile import WARM_SHARE, made_up_rates
from tests.cost_model.build import Builder
from tests.graph.models import from_text


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
    warm = replace(made_up_rates(), cold=Starts())
    cold = replace(warm, cold=Starts(node=3e-6))
    before, after = ([cost.seconds[0] for cost in annotate(graph, with_rates(r)).ops] for r in (warm, cold))
    assert "softplus" not in warm.tables
    assert [late - early for early, late in zip(before, after, strict=True)] == pytest.approx([3e-6] * 3)


def test_what_runs_behind_a_product_that_fills_the_core_takes_longer():
    """The next node alone, not the one behind it."""
    build = Builder()
    product = build.op("MatMul", [build.value((1, 8192)), build.weight((8192, 8192))], (1, 8192))
    spread = build.op("Softplus", [build.op("Tanh", [product], (1, 8192))], (1, 8192))
    graph = build.graph(spread)
    warm = made_up_rates()
    filled = replace(warm, filled_seconds=3e-6)
    before, after = ([cost.seconds[0] for cost in annotate(graph, with_rates(r)).ops] for r in (warm, filled))
    assert [late - early for early, late in zip(before, after, strict=True)] == pytest.approx([0.0, 3e-6, 0.0])


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


def seconds_of(graph: Graph, rates: KernelRates) -> list[float]:
    return [cost.seconds[0] for cost in annotate(graph, with_rates(rates)).ops]


def longer_by(graph: Graph, constant_seconds: float) -> list[float]:
    """What every op takes longer where a constant that no cache holds takes so long."""
    rates = made_up_rates()
    before, after = (seconds_of(graph, replace(rates, constant_seconds=s)) for s in (0.0, constant_seconds))
    return [late - early for early, late in zip(before, after, strict=True)]


def test_a_constant_lies_in_a_cache_until_other_data_pushed_it_out():
    """256 MB pass between runs, nothing between the first two that read it, as much as a cache holds before a third."""
    build = Builder()
    bias, value = build.weight((1, 8192)), build.value((1, 8192))
    value = build.op("MatMul", [value, build.weight((8192, 8192))], (1, 8192))
    value = build.op("Tanh", [value], (1, 8192))
    for _ in range(2):
        value = build.op("Mul", [value, bias], (1, 8192))
    value = build.op("MatMul", [value, build.weight((8192, 256))], (1, 256))
    value = build.op("MatMul", [value, build.weight((256, 8192))], (1, 8192))
    value = build.op("Tanh", [value], (1, 8192))
    value = build.op("Mul", [value, bias], (1, 8192))
    _, _, first, second, _, _, _, third = longer_by(build.graph(value), 3e-6)
    assert first == pytest.approx(3e-6, rel=1e-3)
    assert second < 0.1e-6
    assert third == pytest.approx(3e-6 * (1 - exp(-1)), rel=0.02)


def test_numbers_of_a_formula_are_no_constants_of_the_kernel_that_it_becomes():
    """Gelu, written out, of what 256 MB of weights made."""
    text = """<ir_version: 9, opset_import: ["": 20]> g (float[1, 8192] x, float[8192, 8192] w) => (float[1, 8192] y) {
        root = Constant <value = float {1.4142135}> ()  one = Constant <value = float {1}> ()
        half = Constant <value = float {0.5}> ()
        a = MatMul (x, w)  b = Div (a, root)  c = Erf (b)  d = Add (c, one)  e = Mul (a, d)  y = Mul (e, half) }"""
    graph = hetpart.load(from_text(text))
    assert sum(longer_by(graph, 3e-6)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("kind", ["Gather", "Slice"])
def test_what_takes_all_of_a_value_apart_costs_what_a_split_does(kind: str) -> None:
    taken = {
        "Gather": "p{0} = Gather <axis = 1> (x, at{0})",
        "Slice": "p{0} = Slice (x, at{0}, at{1}, axis)",
    }[kind]
    width, names = (1, "float[64, 1]"), [f"p{place}" for place in range(4)]
    numbers = " ".join(f"at{place} = Constant <value_ints = [{place}]> ()" for place in range(5))
    parts = " ".join(taken.format(place, place + 1) for place in range(4))
    outs = ", ".join(f"{width[1]} {name}y" for name in names)
    behind = " ".join(f"{name}y = Tanh ({name})" for name in names)
    head = f'<ir_version: 9, opset_import: ["": 20]> g (float[64, 4] given) => ({outs})'
    axis = "axis = Constant <value_ints = [1]> ()  x = Erf (given)"
    split = f"{', '.join(names)} = Split <axis = 1, num_outputs = 4> (x)"
    prices = [
        sum(seconds_of(hetpart.load(from_text(f"{head} {{ {numbers} {axis} {body} {behind} }}")), made_up_rates()))
        for body in (parts, split)
    ]
    assert prices[0] == pytest.approx(prices[1])


def test_values_beyond_the_usual_three_have_notes_that_a_run_loses_too() -> None:
    """A Split into eight reads one value and makes eight."""
    build = Builder()
    value = build.op("MatMul", [build.value((1, 8192)), build.weight((8192, 8192))], (1, 8192))
    parts: list[Shape | None] = [(1, 1024)] * 8
    build.op("Split", [build.op("Tanh", [value], (1, 8192))], parts)
    graph = build.graph(*build.ops[-1].results)
    before, after = (seconds_of(graph, replace(made_up_rates(), cold_operand_seconds=s)) for s in (0.0, 1e-6))
    assert [late - early for early, late in zip(before, after, strict=True)] == pytest.approx([0.0, 0.0, 6e-6])


@pytest.mark.parametrize(("op_type", "given", "made"), [
    ("NonZero", ["float32"], (1, 64)), ("NonZero", ["bool"], (1, 64)), ("GatherND", ["float32", "int64"], (64, 1)),
])  # fmt: skip
def test_what_goes_element_by_element_is_measured(op_type: str, given: list[str], made: tuple[int, ...]) -> None:
    """The rates that are made up say a nanosecond for each element, or tuple."""
    build = Builder()
    first, *others = given
    build.op(op_type, [build.value((64,), first), *(build.value((64, 1), dtype) for dtype in others)], made, "int64")
    graph, host = build.graph(*build.ops[-1].results), with_rates(made_up_rates()).devices[0]
    fusions = find_fusions(graph)
    (kernel,) = measured_kernels(graph, host, fusions, likenesses(graph, fusions))
    assert kernel.taken.seconds == pytest.approx(64e-9 * WARM_SHARE)
