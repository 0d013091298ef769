"""Trip counts and access profiles: what they do to costs, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetpart
from hetpart.cost_model.annotate import Costs, annotate
from hetpart.cost_model.assumptions import parse_assumptions
from hetpart.cost_model.machines import load_machine
from hetpart.errors import InvalidOptionError
from hetpart.graph.ir import Graph
from tests.cost_model.build import Builder, single
from tests.runtime.models import model

LOOPS = model("""loops (float[8,8] x, int64 steps, float[8,8] w) => (float[8,8] y, float[8,8] z) {
    go = Constant <value = bool {1}> ()
    [outer] y = Loop (steps, go, x) <body = turn (int64 i, bool in, float[8,8] state) => (bool out, float[8,8] next) {
        [body_product] product = MatMul (state, w)
        [inner] next = Loop (steps, in, product) <body = again (int64 j, bool on, float[8,8] a)
                                                      => (bool off, float[8,8] b) {
            [inner_product] b = MatMul (a, w) [inner_go] off = Identity (on)
        }>
        [body_go] out = Identity (in)
    }>
    [after] z = Relu (y)
}""")
PRODUCT = 2 * 8**3


def costs_of(given: Any = LOOPS, **options: Any) -> Costs:
    return hetpart.annotate(given, hardware="l4+epyc", **options)


def outer_flops(**options: Any) -> float:
    costs = costs_of(**options)
    return next(cost.work.flops for op, cost in zip(costs.graph.ops, costs.ops, strict=True) if op.name == "outer")


@pytest.mark.parametrize(
    ("told", "outer", "inner"),
    [
        (None, 16, 16),
        ("outer=3", 3, 16),
        (["outer=3", "inner=5"], 3, 5),
        ({"*er": 2}, 2, 2),
        ("inner=0", 16, 0),
    ],
)
def test_bodies_are_repeated_as_often_as_told(told: Any, outer: int, inner: int) -> None:
    assert outer_flops(trip_count=told) == outer * (PRODUCT + inner * PRODUCT)


LIMITED = """limited (float[8,8] x, bool begin, float[8,8] w) => (float[8,8] y, float[n,8,8] all)
    <int64 limit = {{7}}, int64 none = {{0}}, int64 below = {{-3}}, bool go = {{1}}, bool stop = {{0}}> {{
    [loop] y, all = Loop ({limit}, {condition}, x) <
        body = turn (int64 i, bool c, float[8,8] state) => (bool again, float[8,8] next, float[8,8] seen) {{
            next = MatMul (state, w) seen = Relu (next) {end}
        }}>
}}"""
COPIED = "again = Identity (c)"
TRUE = "again = Constant <value = bool {1}> ()"
ASKED = "s = ReduceMax <keepdims = 0> (next) again = Cast <to = 9> (s)"
MAY_END = "trip count taken from the limit in the model for 1 loop (loop), which a condition may end before"


def of_loops(costs: Costs) -> list[str]:
    """What is said of trip counts. Of what a loop hands on, sizes are known only in a run, and that is said, too."""
    return [note.partition(";")[0] for note in costs.notes if "trip count" in note]


@pytest.mark.parametrize(
    ("limit", "condition", "end", "trips", "said"),
    [
        ("none", "go", COPIED, 0, ""),
        ("below", "", COPIED, 0, ""),
        ("limit", "stop", COPIED, 0, ""),
        ("", "stop", COPIED, 0, ""),
        ("limit", "go", COPIED, 7, ""),
        ("limit", "", COPIED, 7, ""),
        ("limit", "go", TRUE, 7, ""),
        ("limit", "go", ASKED, 7, MAY_END),
        ("limit", "begin", COPIED, 7, MAY_END),
        ("", "go", COPIED, 16, "trip count unknown: 16 assumed for 1 loop (loop)"),
    ],
)
def test_a_constant_limit_is_the_trip_count(limit: str, condition: str, end: str, trips: int, said: str) -> None:
    given = model(LIMITED.format(limit=limit or '""', condition=condition or '""', end=end))
    costs = costs_of(given)
    once = PRODUCT + 64
    (work,) = (cost.work for cost in costs.ops if costs.graph.ops[cost.op].op_type == "Loop")
    assert trips * once <= work.flops <= trips * (once + 99)
    assert of_loops(costs) == ([said] if said else [])
    told = costs_of(given, trip_count="loop=3")
    assert min(cost.work.flops for cost in told.ops if cost.work.flops) < 4 * once
    assert of_loops(told) == []


def test_scan_outputs_of_a_loop_that_always_runs_equally_often_have_a_length() -> None:
    always = hetpart.load(model(LIMITED.format(limit="limit", condition="go", end=COPIED)))
    assert always.value_named("all").shape == (7, 8, 8)
    ended = hetpart.load(model(LIMITED.format(limit="limit", condition="go", end=ASKED)))
    assert ended.value_named("all").shape == (None, 8, 8)


def test_a_guessed_trip_count_is_stated() -> None:
    costs = costs_of(trip_count="outer=3")
    (reason,) = [c.reason for op, c in zip(costs.graph.ops, costs.ops, strict=True) if op.name == "outer"]
    assert reason.endswith("; 16 runs of the body of inner assumed")
    assert costs.notes == ("trip count unknown: 16 assumed for 1 loop (inner); --trip-count NAME=N tells it",)
    assert costs_of(trip_count="*er=3").notes == ()


def test_the_user_is_believed_before_a_shape() -> None:
    inputs = [((10,), "float32"), ((6, 10), "float32")]
    body = single("Relu", [((10,), "float32")], (10,))
    graph = single("Scan", inputs, [(10,), (6, 10)], bodies=(body,), num_scan_inputs=1)
    machine = load_machine("l4+epyc")
    assert annotate(graph, machine).ops[0].work.flops == 60
    assert annotate(graph, machine, parse_assumptions("n0=2")).ops[0].work.flops == 20


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("outer", "is not name=number"),
        ("=3", "is not name=number"),
        ("outer=-1", "is not name=number"),
        ("outer=1.5", "is not name=number"),
        ("after=3", "matches no Loop, Scan or SequenceMap"),
        (["outer=3", "o*=4"], "'outer=3' and 'o*=4' contradict each other on 'outer'"),
    ],
)
def test_trip_counts_that_say_nothing_are_refused(told: Any, said: str) -> None:
    with pytest.raises(InvalidOptionError, match="trip count") as caught:
        costs_of(trip_count=told)
    assert said in caught.value.message


def test_what_the_loops_are_called_is_a_hint() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        costs_of(trip_count="innner=3")
    assert caught.value.hint == "its loops are named like inner, outer"
    with pytest.raises(InvalidOptionError) as caught:
        annotate(experts(), load_machine("l4+epyc"), parse_assumptions("loop=3"))
    assert caught.value.hint == "it has no loops"


def experts() -> Graph:
    """x → MatMul by v1 → Relu → MatMul by v3 → Gather from v6, 100 rows of 8, at v7."""
    b = Builder()
    x, first = b.value((4, 8)), b.weight((8, 8))
    hidden = b.op("Relu", [b.op("MatMul", [x, first], (4, 8))], (4, 8))
    second = b.weight((8, 8))
    b.op("MatMul", [hidden, second], (4, 8))
    table, ids = b.weight((100, 8)), b.value((30,), "int64")
    b.op("Gather", [table, ids], (30, 8))
    return b.graph()


def work(access: Any, op: int) -> tuple[float, int, int]:
    cost = annotate(experts(), load_machine("l4+epyc"), parse_assumptions(access=access)).ops[op]
    return cost.work.flops, cost.work.bytes_read, cost.work.bytes_written


FIRST, RELU, SECOND, LOOKUP = range(4)


def weight_of(op: int) -> str:
    graph = experts()
    return next(graph.values[value].name for value in graph.ops[op].uses if graph.values[value].is_constant)


def test_an_op_that_reads_a_weight_counts_as_often_as_a_run_touches_it() -> None:
    weight = weight_of(FIRST)
    flops, read, written = work({}, FIRST)
    assert work({weight: 0.25}, FIRST) == (flops / 4, read / 4, written / 4)
    assert work({weight: 0.25}, SECOND) == work({}, SECOND)
    assert work({weight: 0}, FIRST) == (0, 0, 0)
    assert work({weight: 1}, FIRST) == work({}, FIRST)


def test_ops_are_named_too_and_the_last_entry_counts() -> None:
    flops, read, _ = work({}, RELU)
    assert work({"n1": 0.5}, RELU)[:2] == (flops / 2, read / 2)
    assert work({"n*": 0.5, "n1": 0.25}, RELU)[0] == flops / 4
    assert work({"n1": 0.25, "n*": 0.5}, RELU)[0] == flops / 2
    assert work({"n0": 0.5, weight_of(FIRST): 0.25}, FIRST)[0] == work({}, FIRST)[0] / 2


@pytest.mark.parametrize(
    ("rows", "distinct"),
    [
        ({"[0:10]": 1.0, "[10:]": 0.0}, 10),
        ({"[0:10]": 0.5, "[10:]": 0.1}, 14),
        ({"[3]": 0.0, "[4:100]": 0.0}, 3),
        ({"[0:100]": 1.0}, 30),
        ({"[0:10]": 0.0}, 30),
    ],
)
def test_a_lookup_reads_the_rows_that_are_touched_and_never_more_than_asked(
    rows: dict[str, float], distinct: int
) -> None:
    indices = 30 * 8
    access = {weight_of(LOOKUP) + key: probability for key, probability in rows.items()}
    assert work(access, LOOKUP)[1] == distinct * 8 * 4 + indices
    cost = annotate(experts(), load_machine("l4+epyc"), parse_assumptions(access=access)).ops[LOOKUP]
    assert cost.work.bytes_scattered == distinct * 8 * 4


@pytest.mark.parametrize("told", ["w1", "w2"])
def test_what_is_told_of_the_rows_of_one_weight_is_told_of_all_that_experts_have(told: str) -> None:
    """Of one token two of eight experts are read; of one in five on average no more than that."""
    shapes = {"x": (1, 64), "r": (1, 8), "w1": (8, 128, 64), "b1": (8, 128), "w2": (8, 64, 128)}
    b = Builder()
    values = {name: (b.value if name in "xr" else b.weight)(shape) for name, shape in shapes.items()}
    b.op("MoE", [*values.values()], (1, 64), domain="com.microsoft", version=1, k=2)
    name = b.values[values[told]].name
    access = {f"{name}[0]": 0.9, f"{name}[1:]": 0.1}
    cost = annotate(b.graph(), load_machine("l4+epyc"), parse_assumptions(access=access)).ops[0]
    weights = 4 * (2 * 8 * 128 * 64 + 8 * 128)
    assert cost.work.bytes_read == pytest.approx(0.2 * weights + 4 * (64 + 8), rel=1e-3)


@pytest.mark.parametrize(
    "access", [{"experts[0].*": 0.25}, {"experts[0]*": 0.25}, {"experts[0].up": 0.25}, {"experts[[]0]*": 0.25}]
)
def test_numbers_in_brackets_are_those_of_names(access: dict[str, float]) -> None:
    b = Builder()
    for expert in range(2):
        b.op("MatMul", [b.value((4, 8)), b.weight((8, 8))], (4, 8))
        b.values[-2] = replace(b.values[-2], name=f"experts[{expert}].up")
    first, second = annotate(b.graph(), load_machine("l4+epyc"), parse_assumptions(access=access)).ops
    assert first.work.flops == second.work.flops / 4


def test_expected_rows_agree_with_chance() -> None:
    """Batches of one row of a skewed table, drawn by numpy: bytes read on average are what the profile says."""
    probabilities = np.array([0.6, 0.3, 0.1, 0.0])
    draws = np.random.default_rng(0).random((20_000, 4)) < probabilities
    b = Builder()
    table = b.weight((4, 1000))
    b.op("MatMul", [b.value((1, 4)), table], (1, 1000))
    graph = b.graph()
    profile = {f"{graph.values[table].name}[{row}]": float(p) for row, p in enumerate(probabilities)}
    cost = annotate(graph, load_machine("l4+epyc"), parse_assumptions(access=profile)).ops[0]
    average = draws.sum(axis=1).mean() * 1000 * 4
    assert cost.work.bytes_read - 4 * 4 == pytest.approx(average, rel=0.02)


def test_weights_of_bodies_are_weighted_where_they_are_read() -> None:
    zeros = ",".join(["0"] * 64)
    given = model(f"""choice (bool c, float[8,8] x) => (float[8,8] y) <float[8,8] w = {{{zeros}}}> {{
        [if] y = If (c) <then_branch = a () => (float[8,8] t) {{ [expert] t = MatMul (x, w) }},
                         else_branch = b () => (float[8,8] e) {{ [cheap] e = Identity (x) }}>
    }}""")
    full, half = (costs_of(given, access=access).ops[0].work.flops for access in (None, {"w": 0.5}))
    assert (full, half) == (PRODUCT, PRODUCT / 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"n1": 1.5}', "gives 'n1' 1.5, which is not a probability"),
        ('{"n1": true}', "not a probability"),
        ('{"n1": "0.5"}', "not a probability"),
        ('{"n1": NaN}', "not a probability"),
        ('{"n1": 0.5, "n1": 0.6}', "gives 'n1' twice"),
        ('{"nothing": 0.5}', "'nothing' matches no weight, op or module"),
        ('{"n1[0]": 0.5}', "matches no weight"),
        *(
            (f'{{"TABLE{rows}": 0.5}}', "ends in brackets that name no rows")
            for rows in ("[-5:]", "[-1]", "[0-100]", "[5,6]", "[::2]", "[:5]", "[0: 5]", "[]")
        ),
        ('{"TABLE[5:5]": 0.5}', "has no row"),
        ('{"TABLE[100]": 0.5}', "beyond the 100 rows"),
        ('{"TABLE[0:5]": 0.5, "TABLE[4]": 0.1}', "overlaps"),
    ],
)
def test_profiles_that_say_nothing_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "access.json"
    path.write_text(text.replace("TABLE", weight_of(LOOKUP)))
    with pytest.raises(InvalidOptionError) as caught:
        work(path, LOOKUP)
    assert said in caught.value.message


def test_a_missing_profile_is_told() -> None:
    with pytest.raises(InvalidOptionError, match=r"cannot read the access profile 'none\.json': No such file"):
        parse_assumptions(access="none.json")


def test_a_plan_records_what_was_assumed_and_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    path.write_text(json.dumps({"after": 0.5}))
    told = hetpart.partition(LOOPS, hardware="emulated", trip_count=["outer=3", "inner=5"], access=path)
    assert told.plan.options["trip_count"] == "outer=3 inner=5"
    assert told.plan.options["access"] == str(path)
    flops = {decision.op: decision.flops for decision in told.plan.decisions}
    assert flops == {"outer": 3 * 6 * PRODUCT, "after": 32.0}
    guessed = hetpart.partition(LOOPS, hardware="emulated", access={"after": 0.5})
    assert guessed.plan.options["access"] == '{"after": 0.5}'
    assert "trip count unknown: 16 assumed for 2 loops" in " ".join(guessed.report().split())


@pytest.mark.parametrize(("op_type", "cycles"), [("NonZero", "serial_cycles"), ("Selu", "spread_cycles")])
def test_a_kernel_that_goes_element_by_element_counts_as_often_as_a_run_has_elements(op_type, cycles) -> None:
    """What an expert that takes a quarter of the tokens spends on them."""
    graph = single(op_type, [((64,), "float32")], (64,))
    all_of_them, quarter = (
        annotate(graph, load_machine("l4+epyc"), parse_assumptions(access=access)).ops[0].work
        for access in ({}, {graph.ops[0].name: 0.25})
    )
    assert getattr(quarter, cycles) == getattr(all_of_them, cycles) / 4 > 0
