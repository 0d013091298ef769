"""Sizes that decide what a kernel takes: how often it copies how much, and which axis it sums up."""

from __future__ import annotations

from math import prod

import pytest
from onnx import TensorProto, helper

from hetpart.cost_model.kernel_calls import COPIED, LONGEST_SPAN, kernel_call
from hetpart.cost_model.moving_calls import COPY, LONGEST_PIECE, WIDEST_SHARED, KernelCall
from hetpart.pricing import load

FLOAT, INTEGER = TensorProto.FLOAT, TensorProto.INT64
OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]


def call_of(tmp_path, node, inputs, made, *, dtype=FLOAT, weights=(), before=()):
    """The call of the one node of a model, or of several that share a kernel."""
    graph = helper.make_graph(
        [*before, node],
        "one",
        [
            helper.make_tensor_value_info(name, INTEGER if name == "rows" else dtype, shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in made.items()],
        [helper.make_tensor(name, INTEGER, [len(numbers)], numbers) for name, numbers in weights],
    )
    path = tmp_path / "one.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=OPSETS).SerializeToString())
    loaded = load(path)
    found = kernel_call(loaded.ops, loaded)
    assert found is not None
    return found


def test_a_lookup_behind_other_axes_copies_once_for_each_of_their_places(tmp_path):
    node = helper.make_node("Gather", ["x", "rows"], ["y"], axis=1)
    found = call_of(tmp_path, node, {"x": [128, 729], "rows": [351]}, {"y": [128, 351]})
    assert found == KernelCall("gather", (128 * 351, 1, 4 * 729))


@pytest.mark.parametrize(("indices", "table"), [(4096, 4 * 64 * 1_000_000), (65_536, 4 * 1_000_000)])
def test_lookups_far_from_each_other_are_as_far_as_the_whole_table(tmp_path, indices, table):
    """Of 62,500 cache lines in a block; ONNX Runtime 1.31 takes 55 ns for each of the fewer, 15 ms for 64 rows."""
    node = helper.make_node("Gather", ["x", "rows"], ["y"], axis=1)
    found = call_of(tmp_path, node, {"x": [64, 1_000_000], "rows": [indices]}, {"y": [64, indices]})
    assert found == KernelCall("gather_shared", (64 * indices, 1, table))


def test_a_lookup_of_many_bytes_is_shared_by_threads(tmp_path):
    node = helper.make_node("Gather", ["x", "rows"], ["y"])
    found = call_of(tmp_path, node, {"x": [1000, 64], "rows": [1000]}, {"y": [1000, 64]})
    assert found == KernelCall("gather_shared", (64_000, 64, 4 * 64_000))


def test_rows_beyond_those_measured_are_shared_at_their_rate(tmp_path):
    node = helper.make_node("Gather", ["x", "rows"], ["y"])
    found = call_of(tmp_path, node, {"x": [3, 100_000], "rows": [1]}, {"y": [1, 100_000]})
    assert found == KernelCall("gather_shared", (100_000, WIDEST_SHARED, 4 * 300_000))


def test_a_lookup_of_rows_copies_whole_rows(tmp_path):
    node = helper.make_node("Gather", ["x", "rows"], ["y"])
    found = call_of(tmp_path, node, {"x": [1000, 64], "rows": [8, 3]}, {"y": [8, 3, 64]})
    assert found == KernelCall("gather", (24, 64, 4 * 64_000))


@pytest.mark.parametrize(
    ("axes", "keepdims", "made", "expected"),
    [
        ((2,), 1, [6, 5, 1], KernelCall("reduction", (30, 4))),
        ((1,), 1, [6, 1, 4], KernelCall("reduction_across", (6, 5, 4))),
        ((1,), 0, [6, 4], KernelCall("reduction_across", (6, 5, 4))),
        ((0,), 0, [5, 4], KernelCall("reduction_across", (1, 6, 20))),
        ((0, 1, 2), 0, [1], KernelCall("reduction", (1, 120))),
        ((1, 2), 0, [6], KernelCall("reduction", (6, 20))),
    ],
)
def test_sums_along_the_last_axis_and_across_others_differ(tmp_path, axes, keepdims, made, expected):
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=keepdims)
    assert call_of(tmp_path, node, {"x": [6, 5, 4]}, {"y": made}, weights=[("axes", axes)]) == expected


@pytest.mark.parametrize(
    ("op_type", "shape", "axis", "expected"),
    [
        ("ReduceSum", [64, 256, 256], 0, KernelCall(COPY, (2**22,))),
        ("ReduceMean", [64, 256, 256], 0, KernelCall(COPY, (2**22,))),
        ("ReduceMax", [64, 256, 256], 0, KernelCall("reduction_across", (1, 64, 2**16))),
        ("ReduceSum", [64, 256, 256], 1, KernelCall("reduction_across", (64, 256, 256))),
        ("ReduceSum", [4, 4096], 1, KernelCall("reduction", (16, 1024))),
    ],
)
def test_long_sums_take_as_long_for_each_element(tmp_path, op_type, shape, axis, expected):
    """Over the first axis they read vectors one by one: 0.5 ms of 2^22 elements, where the largest take 4.4."""
    node = helper.make_node(op_type, ["x", "axes"], ["y"])
    made = [1 if place == axis else size for place, size in enumerate(shape)]
    assert call_of(tmp_path, node, {"x": shape}, {"y": made}, weights=[("axes", [axis])]) == expected


@pytest.mark.parametrize(("shape", "kept"), [([4096, 64], 8), ([1, 50_257], 4), ([16, 4096], 128)])
def test_no_family_speaks_of_the_largest_that_no_processor_foresees(tmp_path, shape, kept):
    """Of the same rows again and again, 64 of 128 take 23 cycles an element, of new ones 139."""
    node = helper.make_node("TopK", ["x", "count"], ["y", "places"])
    with pytest.raises(AssertionError):
        call_of(tmp_path, node, {"x": shape}, {"y": [shape[0], kept]}, weights=[("count", [kept])])


@pytest.mark.parametrize(("run", "is_copied"), [(1, False), (16, False), (64, True)])
def test_no_family_speaks_of_short_runs_that_are_repeated(tmp_path, run, is_copied):
    node = helper.make_node("Tile", ["x", "repeats"], ["y"])
    arguments = tmp_path, node, {"x": [64, run]}, {"y": [64, 4 * run]}
    if is_copied:
        assert call_of(*arguments, weights=[("repeats", [1, 4])]).family == COPIED
        return
    with pytest.raises(AssertionError):
        call_of(*arguments, weights=[("repeats", [1, 4])])


def test_pieces_are_joined_in_runs(tmp_path):
    node = helper.make_node("Concat", ["x", "z"], ["y"], axis=1)
    found = call_of(tmp_path, node, {"x": [32, 10, 3], "z": [32, 20, 3]}, {"y": [32, 30, 3]})
    assert found == KernelCall("concat", (32 * 90, 45, 2))


def test_runs_are_no_longer_than_what_was_measured(tmp_path):
    node = helper.make_node("Concat", ["x", "z"], ["y"], axis=0)
    found = call_of(tmp_path, node, {"x": [320, 1000], "z": [320, 1000]}, {"y": [640, 1000]})
    assert found == KernelCall("concat", (640_000, LONGEST_PIECE, 2))


def test_what_is_moved_counts_by_its_bytes(tmp_path):
    node = helper.make_node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)
    found = call_of(tmp_path, node, {"x": [64, 2]}, {"y": [64, 1], "z": [64, 1]}, dtype=INTEGER)
    assert found == KernelCall("concat", (2 * 128, 2, 2))


def test_transpositions_that_run_as_one_move_what_all_of_them_move(tmp_path):
    swapped = helper.make_node("Transpose", ["y"], ["z"], perm=[0, 1, 3, 2])
    heads = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])
    found = call_of(tmp_path, swapped, {"x": [1, 128, 12, 64]}, {"z": [1, 12, 64, 128]}, before=[heads])
    once = helper.make_node("Transpose", ["x"], ["z"], perm=[0, 2, 3, 1])
    assert found == call_of(tmp_path, once, {"x": [1, 128, 12, 64]}, {"z": [1, 12, 64, 128]})
    assert found == KernelCall("transpose", (128 * 12 * 64, 1))


def test_transpositions_that_undo_each_other_copy(tmp_path):
    back = helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 1, 3])
    heads = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])
    found = call_of(tmp_path, back, {"x": [1, 128, 12, 64]}, {"z": [1, 128, 12, 64]}, before=[heads])
    assert found == KernelCall(COPY, (128 * 12 * 64,))


def test_moving_axes_of_a_single_place_is_a_copy(tmp_path):
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])
    found = call_of(tmp_path, node, {"x": [1, 1, 12, 64]}, {"y": [1, 12, 1, 64]})
    assert found == KernelCall(COPY, (12 * 64,))


@pytest.mark.parametrize(
    ("left", "right", "span"),
    [
        ([8, 16, 32], [32], 32),
        ([8, 16, 32], [16, 1], 32),
        ([8, 16, 32], [16, 32], 512),
        ([8, 16, 32], [8, 1, 1], 512),
        ([8, 16, 1], [16, 1], 16),
        ([64, 1000], [1], LONGEST_SPAN),
    ],
)
def test_an_operand_is_repeated_by_spans_of_the_last_dimensions(tmp_path, left, right, span):
    found = call_of(tmp_path, helper.make_node("Mul", ["x", "z"], ["y"]), {"x": left, "z": right}, {"y": left})
    assert found == KernelCall("add_row", (prod(left), span))


def test_the_largest_are_found_row_by_row(tmp_path):
    node = helper.make_node("TopK", ["x", "count"], ["y", "places"], axis=1)
    found = call_of(tmp_path, node, {"x": [4, 10, 6]}, {"y": [4, 3, 6]}, weights=[("count", [3])])
    assert found == KernelCall("top_k", (24, 10, 3))


def test_channels_are_normalised_one_by_one(tmp_path):
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    channels = {key: [16] for key in "sbmv"}
    found = call_of(tmp_path, node, {"x": [2, 16, 7, 7], **channels}, {"y": [2, 16, 7, 7]})
    assert found == KernelCall("batch_normalization", (32, 49))


@pytest.mark.parametrize(("rows", "alpha", "together"), [(1, 1.0, 1), (1, 0.125, 2), (7, 0.125, 7)])
def test_one_row_of_a_product_with_a_factor_takes_what_two_do(tmp_path, rows, alpha, together):
    node = helper.make_node("FusedMatMul", ["x", "z"], ["y"], domain="com.microsoft", transB=1, alpha=alpha)
    shapes = {"x": [12, rows, 64], "z": [12, 500, 64]}
    found = call_of(tmp_path, node, shapes, {"y": [12, rows, 500]})
    assert found == KernelCall("batched_gemm_transposed", (together, 64, 500), calls=12)


def test_a_single_column_is_computed_as_a_row(tmp_path):
    """ONNX Runtime 1.31 takes 15.5 microseconds for each of these, as for a row by 64 columns; 16 columns take 34."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    found = call_of(tmp_path, node, {"x": [8, 64, 1024], "w": [8, 1024, 1]}, {"y": [8, 64, 1]})
    assert found == KernelCall("batched_gemm", (1, 1024, 64), calls=8)


def test_a_window_of_the_whole_image_is_read_once(tmp_path):
    calls = [
        call_of(tmp_path, node, {"x": [1, 64, 7, 7]}, {"y": [1, 64, 1, 1]})
        for node in (
            helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[7, 7]),
            helper.make_node("GlobalAveragePool", ["x"], ["y"]),
        )
    ]
    assert calls == [KernelCall("relu", (64 * 7 * 7,))] * 2


@pytest.mark.parametrize("step", [-1, 2])
def test_no_family_speaks_of_elements_taken_with_a_step(tmp_path, step):
    """They go one by one; rows that are taken so are copied whole."""
    node = helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["y"])
    ends = ("start", [-1]), ("end", [-9999])
    ends = ends if step < 0 else (("start", [0]), ("end", [9999]))
    size = 256 if step < 0 else 128
    inputs, weights = {"x": [64, 256]}, [*ends, ("step", [step])]
    with pytest.raises(AssertionError):
        call_of(tmp_path, node, inputs, {"y": [64, size]}, weights=[*weights, ("axis", [1])])
    size = 64 if step < 0 else 32
    rows = call_of(tmp_path, node, inputs, {"y": [size, 256]}, weights=[*weights, ("axis", [0])])
    assert rows.family == COPIED


@pytest.mark.parametrize(("exponent", "is_power"), [(2, False), (3, False), (4, True), (0.5, True)])
def test_squares_and_cubes_are_no_powers(tmp_path, exponent, is_power):
    """Of 1.6 million elements ONNX Runtime 1.31 takes 0.5, 0.6 and 11 ms by the exponents 2, 3 and a half."""
    node = helper.make_node("Pow", ["x", "by"], ["y"])
    by = helper.make_node("Constant", [], ["by"], value=helper.make_tensor("", FLOAT, [], [exponent]))
    graph = helper.make_graph(
        [by, node],
        "one",
        [helper.make_tensor_value_info("x", FLOAT, [512])],
        [helper.make_tensor_value_info("y", FLOAT, [512])],
    )
    path = tmp_path / "one.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=OPSETS).SerializeToString())
    loaded = load(path)
    found = kernel_call([op for op in loaded.ops if op.op_type == "Pow"], loaded)
    assert (found is not None and found.family == "pow") == is_power


@pytest.mark.parametrize("shape", [[4, 256, 400], [1, 5, 112, 112], [1, 16, 8, 32, 32]])
def test_no_family_speaks_of_pools_without_blocks_of_channels(tmp_path, shape):
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1] * (len(shape) - 2))
    with pytest.raises(AssertionError):
        call_of(tmp_path, node, {"x": shape}, {"y": shape})
    images = [1, 16, 56, 56]
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1])
    assert call_of(tmp_path, node, {"x": images}, {"y": images}) == KernelCall("pool", (prod(images), 1))
