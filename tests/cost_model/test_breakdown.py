"""Rows of costs: sums by hand, and what a data frame holds."""

from __future__ import annotations

import builtins
from collections import Counter
from typing import Any

import pytest

import hetpart
from hetpart.cost_model.annotate import Costs
from hetpart.cost_model.breakdown import ranked, total_of
from hetpart.errors import HetpartError, InvalidOptionError
from tests.runtime.models import model

SCOPED = model("""scoped (float[64,64] x) => (float[64,64] z, int64[n] u) {
    [first] a = MatMul (x, x)
    [relu] b = Relu (a)
    [second] c = MatMul (b, b)
    [tanh] z = Tanh (c)
    shape = Constant <value_ints = [-1]> ()
    d = Cast <to = 7> (c)
    e = Reshape (d, shape)
    [unique] u = Unique (e)
}""")
LAYERS = ("layer.0/dense/MatMul", "layer.0/act/Relu", "layer.1/dense/MatMul", "layer.1/act/Tanh")
for node, name in zip(SCOPED.graph.node, LAYERS, strict=False):
    node.name = f"/encoder/{name}"


@pytest.fixture(scope="module")
def costs() -> Costs:
    return hetpart.annotate(SCOPED, hardware="l4+epyc")


def test_every_op_is_a_row_in_order(costs: Costs) -> None:
    rows = costs.rows()
    assert [row.name for row in rows] == [op.name for op in costs.graph.ops]
    product = rows[0]
    assert (product.op_type, product.scope, product.ops) == ("MatMul", "encoder.layer.0.dense", 1)
    assert (product.flops, product.bytes_read, product.bytes_written) == (2 * 64**3, 64 * 64 * 4, 64 * 64 * 4)
    assert product.intensity == 2 * 64**3 / (2 * 64 * 64 * 4)
    assert tuple(there.seconds for there in product.devices) == costs.ops[0].seconds
    assert product.reason == costs.ops[0].reason


def test_types_are_counted(costs: Costs) -> None:
    found = {row.name: row.ops for row in costs.rows("type")}
    assert found == Counter(op.op_type for op in costs.graph.ops)


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (1, {"encoder", ""}),
        (2, {"encoder.layer", ""}),
        (3, {"encoder.layer.0", "encoder.layer.1", ""}),
        (None, {f"encoder.layer.{i}.{kind}" for i in (0, 1) for kind in ("dense", "act")} | {""}),
    ],
)
def test_modules_are_told_apart_by_as_many_names_as_asked(costs: Costs, depth: int | None, names: set[str]) -> None:
    assert {row.name for row in costs.rows("scope", depth)} == names


@pytest.mark.parametrize("by", ["op", "type", "scope"])
def test_rows_add_up_to_the_total(costs: Costs, by: str) -> None:
    rows, total = costs.rows(by), total_of(costs)
    assert sum(row.ops for row in rows) == total.ops == len(costs.ops)
    for figure in ("flops", "bytes_moved", "seconds"):
        assert sum(getattr(row, figure) for row in rows) == pytest.approx(getattr(total, figure))
    for index in range(2):
        parts = [row.devices[index] for row in rows]
        assert sum(part.seconds or 0.0 for part in parts) == pytest.approx(total.devices[index].seconds)
        assert sum(part.ops_without_kernel for part in parts) == total.devices[index].ops_without_kernel


def test_what_has_no_kernel_has_no_time_there(costs: Costs) -> None:
    unique = costs.rows()[-1]
    assert unique.op_type == "Unique"
    assert (unique.devices[1].seconds, unique.devices[1].bound, unique.devices[1].ops_without_kernel) == (None, None, 1)
    assert unique.seconds == unique.devices[0].seconds


def test_the_bound_is_that_of_most_of_the_time(costs: Costs) -> None:
    for there in total_of(costs).devices:
        assert sum(there.bound_seconds.values()) == pytest.approx(there.seconds)
        assert there.bound_seconds[there.bound] == max(there.bound_seconds.values())


@pytest.mark.parametrize(
    ("key", "figure"),
    [
        ("time", lambda row: row.seconds),
        ("bytes", lambda row: row.bytes_moved),
        ("flops", lambda row: row.flops),
        ("intensity", lambda row: row.intensity),
        ("cpu", lambda row: row.devices[0].seconds),
        ("cuda:0", lambda row: row.devices[1].seconds or 0),
    ],
)
def test_the_largest_row_comes_first(costs: Costs, key: str, figure: Any) -> None:
    figures = [figure(row) for row in ranked(costs.rows(), key)]
    assert figures == sorted(figures, reverse=True)
    assert len(set(figures)) > 1


def test_wrong_groups_and_orders_are_told(costs: Costs) -> None:
    for by, depth in (("colour", None), ("scope", 0)):
        with pytest.raises(InvalidOptionError, match=f"cannot group by '{by}'"):
            costs.rows(by, depth)
    for by in ("op", "type"):
        with pytest.raises(InvalidOptionError, match=f"a depth of 1 says nothing of a row for every {by}"):
            costs.rows(by, 1)
    with pytest.raises(InvalidOptionError, match="cannot sort by 'cuda:1'") as caught:
        ranked(costs.rows(), "cuda:1")
    assert caught.value.hint == "sort by time, bytes, flops, intensity, cpu, cuda:0"


def test_a_frame_has_a_line_for_every_row(costs: Costs) -> None:
    frame = costs.to_frame()
    assert list(frame["name"]) == [op.name for op in costs.graph.ops]
    assert frame["flops"].sum() == total_of(costs).flops
    assert frame["cuda:0 seconds"].isna().sum() == total_of(costs).devices[1].ops_without_kernel
    by_type = frame.groupby("op_type")["cpu seconds"].sum()
    whole = costs.to_frame("type")
    assert whole["seconds"].is_monotonic_decreasing
    types = whole.set_index("name")["cpu seconds"]
    assert by_type.to_dict() == pytest.approx(types.to_dict())


def test_without_pandas_a_frame_is_an_error_with_a_hint(costs: Costs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HetpartError, match="pandas is not installed") as caught:
        costs.to_frame()
    assert caught.value.hint == "pip install 'hetpart[frame]'"
