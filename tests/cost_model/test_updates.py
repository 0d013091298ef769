"""Which ops update a tensor where it lies, by ONNX Runtime's arena, and what that does to their price."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.cost_model.updates import UPDATES
from hetpart.devices import Provider
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes

WIDTH, ROWS = 64, 8
INDICES: dict[str, tuple[str, np.ndarray[Any, Any], int]] = {
    "ScatterND": ("x u", np.arange(ROWS)[:, None], 18),
    "ScatterElements": ("x u", np.tile(np.arange(ROWS)[:, None], (1, WIDTH)), 18),
    "Scatter": ("x u", np.tile(np.arange(ROWS)[:, None], (1, WIDTH)), 10),
    "TensorScatter": ("x u", np.zeros(1, np.int64), 24),
}
"""Where each op writes, and an opset that has it."""


def updating(op_type: str, rows: int, *, made: bool = True, read_twice: bool = False) -> onnx.ModelProto:
    """An op on a table that another op makes, or that is an input; ``read_twice``: read again when it is changed."""
    _, indices, opset = INDICES[op_type]
    cache = op_type == "TensorScatter"
    table, update = ((1, rows, WIDTH), (1, ROWS, WIDTH)) if cache else ((rows, WIDTH), (ROWS, WIDTH))
    inputs = ["table", "u", "i"] if cache else ["table", "i", "u"]
    nodes = [helper.make_node("Erf", ["x"], ["table"])] if made else []
    nodes += [
        helper.make_node(op_type, inputs, ["changed"], name="op"),
        helper.make_node("Erf", ["changed"], ["y"]),
        *([helper.make_node("Add", ["table", "changed"], ["z"])] if read_twice else []),
    ]
    given = {"x" if made else "table": table, "u": update}
    ends = {"y": table} | ({"z": table} if read_twice else {})
    sides = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()] for side in (given, ends)
    ]
    graph = helper.make_graph(nodes, op_type, *sides, [numpy_helper.from_array(indices.astype(np.int64), "i")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("op_type", INDICES)
@pytest.mark.parametrize("read_twice", [False, True])
def test_which_ops_update_what_an_op_made(op_type: str, read_twice: bool, tmp_path: Path) -> None:
    model = updating(op_type, 2000, read_twice=read_twice)
    nodes = profiled_nodes(model, feeds_of(model), tmp_path, optimize=False)
    taken = next(int(node["args"]["mem_requested_in_use_delta"]) for node in nodes if node["name"] == "op_kernel_time")
    graph = hetpart.load(model)
    (op,) = (op for op in graph.ops if op.op_type == op_type)
    fusions = hetpart.cost_model.fusion.find_fusions(graph)
    assert (taken == 0) == (Provider.CPU in fusions.in_place[op.id])
    assert (op_type in UPDATES[Provider.CPU] and not read_twice) == (taken == 0)


@pytest.mark.parametrize("op_type", INDICES)
def test_the_peak_knows_what_is_updated_in_place(op_type: str, tmp_path: Path) -> None:
    model = updating(op_type, 2000)
    assert predicted_peak(model) == measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))


def seconds(op_type: str, rows: int, **options: bool) -> dict[str, float]:
    costs = hetpart.annotate(updating(op_type, rows, **options), hardware="l4+xeon")
    (cost,) = (cost for cost in costs.ops if costs.graph.ops[cost.op].op_type == op_type)
    return dict(zip((device.name for device in costs.machine.devices), cost.seconds, strict=True))


@pytest.mark.parametrize("op_type", INDICES)
def test_an_update_in_place_takes_as_long_however_large_the_table_is(op_type: str) -> None:
    small, large, copied = (
        seconds(op_type, 10_000),
        seconds(op_type, 1_000_000),
        seconds(op_type, 1_000_000, made=False),
    )
    for name, provider in (("cpu", Provider.CPU), ("cuda:0", Provider.CUDA)):
        assert (large[name] == small[name]) == (op_type in UPDATES[provider])
        assert copied[name] > 10 * small[name] or large[name] == copied[name]


@pytest.mark.parametrize("op_type", INDICES)
@pytest.mark.parametrize("hardware", ["l4+xeon", "emulated"])
def test_a_row_has_the_bytes_that_its_fastest_device_moves(op_type: str, hardware: str) -> None:
    def moved(rows: int) -> int:
        costs = hetpart.annotate(updating(op_type, rows), hardware=hardware)
        (row,) = (row for row in costs.rows() if row.op_type == op_type)
        fastest = min(range(len(row.devices)), key=lambda device: row.devices[device].seconds or inf)
        in_place = op_type in UPDATES[costs.machine.devices[fastest].provider]
        changed = sum(costs.graph.values[v].nbytes for v in next(o for o in costs.graph.ops if o.name == "op").uses[1:])
        kept = 0 if in_place else rows * WIDTH * 4
        assert row.bytes_read == kept + changed
        return row.bytes_moved

    assert moved(100_000) >= moved(10_000)
    assert hardware == "emulated" or moved(100_000) == moved(10_000) < 100_000
