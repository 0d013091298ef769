"""Formulas against PyTorch's own flop counter, against sizes numpy knows, and against arithmetic done by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from hetpart.cost_model.formulas import work_of
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import Table, flops, whole
from hetpart.cost_model.session.bodies import kernel_scratch
from hetpart.cost_model.session.lane import Lane
from hetpart.cost_model.work import NO_WORK, Work
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, ValueKind
from tests.cost_model.build import Builder, single


def _work(graph: Graph, op: int = 0) -> Work:
    work = work_of(graph.ops[op], graph)
    assert work is not None
    return work


def _torch_flops(function, *arguments) -> int:
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    return counter.get_total_flops()


F32 = "float32"


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 8), (8, 3)), ((2, 5, 4, 8), (2, 5, 8, 3)), ((2, 4, 8), (8, 3)), ((1, 7), (7, 1))],
)
def test_matmul_counts_as_torch(left, right):
    out = torch.matmul(torch.ones(left), torch.ones(right))
    graph = single("MatMul", [(left, F32), (right, F32)], tuple(out.shape))
    assert _work(graph).flops == _torch_flops(torch.matmul, torch.ones(left), torch.ones(right))


@pytest.mark.parametrize(
    ("left", "options", "equation"),
    [
        ((6, 4, 8), {}, "bij,bjk->bik"),
        ((6, 8, 4), {"transA": 1}, "bji,bjk->bik"),
        ((4, 6, 8), {"transBatchA": 1}, "ibj,bjk->bik"),
        ((8, 6, 4), {"transA": 1, "transBatchA": 1}, "jbi,bjk->bik"),
    ],
)
def test_products_of_turned_batches_count_as_in_torch(left, options, equation):
    right = (6, 8, 5)
    graph = single("FusedMatMul", [(left, F32), (right, F32)], (6, 4, 5), domain="com.microsoft", version=1, **options)
    counted = _torch_flops(torch.einsum, equation, torch.ones(left), torch.ones(right))
    assert _work(graph).flops == counted


@pytest.mark.parametrize(("factor", "flops"), [(1.0, 2 * 6 * 4 * 5 * 8), (0.125, 2 * 6 * 4 * 5 * 8 + 6 * 4 * 5)])
def test_a_factor_of_a_product_is_a_multiplication_of_each_element(factor, flops):
    right, options = (6, 8, 5), {"alpha": factor}
    graph = single("FusedMatMul", [((6, 4, 8), F32), (right, F32)], (6, 4, 5), domain="com.microsoft", version=1,
                   **options)  # fmt: skip
    assert _work(graph).flops == flops


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax"])
def test_a_reduction_without_axes_may_give_back_what_it_is_given(op_type):
    shape = (100, 64)
    kept, whole = (single(op_type, [(shape, F32)], made, noop_with_empty_axes=noop)
                   for noop, made in ((1, shape), (0, (1, 1))))  # fmt: skip
    assert _work(kept).flops == _work(kept).spread_cycles == 0
    assert _work(whole).flops >= 100 * 64


def test_support_vectors_are_compared_with_every_row():
    """By hand: distances, an exponential with its scale, and a product for each of ten vectors of five numbers."""
    vectors = {"support_vectors": (0.1,) * 50, "coefficients": (1.0,) * 10, "n_supports": 10}
    rows = [((100, 5), F32)]
    found = {
        kind: _work(single("SVMRegressor", rows, (100, 1), domain="ai.onnx.ml", version=1, kernel_type=kind, **vectors))
        for kind in ("LINEAR", "RBF")
    }
    assert found["RBF"].flops == 100 * 10 * (3 * 5 + 4 + 1 + 2)
    assert found["LINEAR"].flops == 100 * 10 * (2 * 5 + 2)


@pytest.mark.parametrize(
    ("shape", "weight", "options"),
    [
        ((2, 6, 9, 9), (4, 6, 3, 3), {}),
        ((2, 6, 9, 9), (4, 6, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 6, 9, 9), (6, 1, 3, 3), {"groups": 6}),
        ((1, 6, 20), (4, 6, 5), {"dilation": 2}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 2, 2), {}),
    ],
)
def test_convolution_counts_as_torch(shape, weight, options):
    convolve = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[len(shape)]
    arguments = (torch.ones(shape), torch.ones(weight))
    out = convolve(*arguments, **options)
    graph = single("Conv", [(shape, F32), (weight, F32)], tuple(out.shape))
    assert _work(graph).flops == _torch_flops(lambda: convolve(*arguments, **options))


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}])
def test_transposed_convolution_counts_as_torch(options):
    image, weight = torch.ones(2, 6, 7, 7), torch.ones(6, 4, 3, 3)
    out = torch.conv_transpose2d(image, weight, **options)
    graph = single("ConvTranspose", [((2, 6, 7, 7), F32), ((6, 4, 3, 3), F32)], tuple(out.shape))
    assert _work(graph).flops == _torch_flops(lambda: torch.conv_transpose2d(image, weight, **options))


@pytest.mark.parametrize(("queries", "keys"), [(16, 16), (1, 64)])
def test_attention_counts_as_torch_but_for_the_softmax(queries, keys):
    q, k, v = torch.ones(2, 4, queries, 8), torch.ones(2, 4, keys, 8), torch.ones(2, 4, keys, 8)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        counted = _torch_flops(torch.nn.functional.scaled_dot_product_attention, q, k, v)
    graph = single("Attention", [(tuple(t.shape), F32) for t in (q, k, v)], tuple(q.shape), version=23)
    scores = 2 * 4 * queries * keys
    assert _work(graph).flops == counted + 7 * scores


def test_attention_over_a_cache_counts_the_remembered_tokens():
    inputs = [((2, 1, 32), F32)] * 3 + [None, ((2, 4, 10, 8), F32), ((2, 4, 10, 8), F32)]
    shapes = [(2, 1, 32), (2, 4, 11, 8), (2, 4, 11, 8)]
    graph = single("Attention", inputs, shapes, version=23, q_num_heads=4, kv_num_heads=4)
    assert _work(graph).flops == 2 * (2 * 2 * 4 * 1 * 11 * 8) + 7 * 2 * 4 * 11


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(7, 3, 4), (7, 4, 5)]),
        ("ij, jk", [(3, 4), (4, 5)]),
    ],
)
def test_einsum_counts_as_torch(equation, shapes):
    tensors = [torch.ones(s) for s in shapes]
    out = torch.einsum(equation, *tensors)
    graph = single("Einsum", [(s, F32) for s in shapes], tuple(out.shape), equation=equation)
    assert _work(graph).flops == _torch_flops(lambda: torch.einsum(equation, *tensors))


def test_gemm_sums_along_the_right_axis():
    graph = single("Gemm", [((8, 4), F32), ((8, 3), F32), ((3,), F32)], (4, 3), transA=1)
    assert _work(graph).flops == 2 * 4 * 3 * 8 + 4 * 3


@pytest.mark.parametrize("placed", [False, True])
def test_embeddings_read_a_row_a_token_and_of_small_tables_all_once(placed):
    tokens, width = (8, 128), 768
    tables = [((30_000, width), "float32"), ((512, width), "float32"), ((2, width), "float32")]
    given = [(tokens, "int32"), (tokens, "int32"), *tables, ((width,), "float32"), ((width,), "float32"), None]
    given += [(tokens, "int32")] if placed else []
    options = {"domain": "com.microsoft", "version": 1}
    graph = single("EmbedLayerNormalization", given, (*tokens, width), **options)
    rows = 8 * 128 + (8 * 128 if placed else 128) + 2  # without ids every sequence has the same places
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.bytes_read == (rows + 2) * width * 4 + (3 if placed else 2) * 8 * 128 * 4


@pytest.mark.parametrize(("exponent", "flops_each"), [(2.0, 1), (3.0, 2), (2.5, 8), (None, 8)])
def test_a_square_is_a_product(exponent, flops_each):
    b = Builder()
    power = b.value(()) if exponent is None else b.weight(())
    b.values[power] = replace(b.values[power], content=None if exponent is None else (exponent,))
    b.op("Pow", [b.value((4, 8)), power], (4, 8))
    graph = b.graph()
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == 32 * flops_each


def test_gather_reads_rows_not_the_table():
    graph = single("Gather", [((1_000_000_000, 128), F32), ((16, 26), "int64")], (16, 26, 128))
    rows = 16 * 26 * 128 * 4
    assert _work(graph) == Work(0.0, rows + 16 * 26 * 8, rows, bytes_scattered=rows)


@pytest.mark.parametrize(
    ("op_type", "data", "indices", "out"),
    [("GatherElements", (1000, 64), (3, 64), (3, 64)), ("GatherND", (1000, 64), (3, 1), (3, 64))],
)
def test_other_gathers_read_rows_too(op_type, data, indices, out):
    graph = single(op_type, [(data, F32), (indices, "int64")], out)
    assert _work(graph).bytes_read == np.zeros(out, F32).nbytes + np.zeros(indices, "int64").nbytes


def test_scatter_copies_the_table_and_scatters_the_updates():
    inputs = [((1000, 64), F32), ((5, 1), "int64"), ((5, 64), F32)]
    work = _work(single("ScatterND", inputs, (1000, 64)))
    assert work.bytes_moved == 2 * 1000 * 64 * 4 + 5 * 8 + 2 * 5 * 64 * 4
    assert work.bytes_scattered == 5 * 64 * 4


def test_mixture_reads_the_experts_it_uses():
    experts, hidden, inner = 16, 32, 64
    weights = [((experts, inner, hidden), F32), None, ((experts, hidden, inner), F32)]
    inputs = [((1, 2, hidden), F32), ((2, experts), F32), *weights]
    work = _work(single("MoE", inputs, (1, 2, hidden), domain="com.microsoft", k=2))
    one_expert = 2 * inner * hidden
    assert work.flops == 2 * 2 * 2 * one_expert
    assert work.bytes_read == (2 * hidden + 2 * experts) * 4 + 4 * one_expert * 4


def test_fused_products_of_packed_weights_are_those_of_one_after_the_other():
    def product(columns: int) -> float:
        graph = single("MatMulNBits", [((4, 64), F32)], (4, columns), domain="com.microsoft", K=64, N=columns)
        return _work(graph).flops

    outs = [(4, 64), (4, 32), (4, 32)]
    heads = single("MatMulNBitsQkv", [((4, 64), F32)], outs, domain="com.microsoft", K=64, Nq=64, Nkv=32)
    assert _work(heads).flops == product(64) + 2 * product(32)
    gated = single("MatMulNBitsMlp", [((4, 64), F32)], (4, 128), domain="com.microsoft", K=64, N=128)
    assert 2 * product(128) < _work(gated).flops < 2.1 * product(128)


@pytest.mark.parametrize("op_type", ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size"])
def test_views_and_metadata_do_nothing(op_type):
    assert _work(single(op_type, [((100, 100), F32)], (10_000,))) == NO_WORK


@pytest.mark.parametrize("op_type", ["Slice", "Expand", "Tile", "Pad"])
def test_a_part_is_read_as_large_as_it_is(op_type):
    small, large = 10 * 4, 1000 * 4
    assert _work(single(op_type, [((1000,), F32)], (10,))).bytes_read == small
    assert _work(single(op_type, [((10,), F32)], (1000,))).bytes_read == small
    assert _work(single(op_type, [((10,), F32)], (1000,))).bytes_written == large


IMAGE, PLACES = (1, 3, 1000, 1000), ((1, 2, 2, 2), F32)
SCALES, REGION = ((4,), F32), ((1, 4), F32)


@pytest.mark.parametrize(
    ("op_type", "others", "made", "each", "options"),
    [
        ("GridSample", [PLACES], (1, 3, 2, 2), 4, {}),
        ("GridSample", [PLACES], (1, 3, 2, 2), 16, {"mode": "cubic"}),
        ("GridSample", [PLACES], (1, 3, 2, 2), 1, {"mode": "nearest", "domain": "com.microsoft", "version": 1}),
        ("CropAndResize", [REGION, ((1,), "int32")], (1, 3, 2, 2), 4, {"domain": "com.microsoft", "version": 1}),
        ("Resize", [None, SCALES], (1, 3, 125, 125), 1, {}),
        ("Resize", [None, SCALES], (1, 3, 125, 125), 4, {"mode": "linear"}),
        ("Resize", [None, SCALES], (1, 3, 125, 1000), 2, {"mode": "linear"}),
    ],
)
def test_of_an_image_what_lies_around_the_places_is_read(op_type, others, made, each, options):
    read = _work(single(op_type, [(IMAGE, F32), *others], made, **options)).bytes_read
    beside = sum(np.zeros(shape, dtype).nbytes for shape, dtype in filter(None, others))
    assert read == each * np.zeros(made, F32).nbytes + beside


@pytest.mark.parametrize(("made", "options"), [((1, 3, 2000, 2000), {}), ((1, 3, 125, 125), {"antialias": 1})])
def test_an_image_is_read_once_at_most_and_whole_with_antialias(made, options):
    graph = single("Resize", [(IMAGE, F32), None, SCALES], made, mode="linear", **options)
    assert _work(graph).bytes_read == np.zeros(IMAGE, F32).nbytes + np.zeros(4, F32).nbytes


def test_transpose_moves_everything_once_each_way():
    assert _work(single("Transpose", [((3, 4, 5), "float16")], (5, 4, 3), dtype="float16")) == Work(0.0, 120, 120)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3)])
def test_pooling_visits_each_window(kernel):
    graph = single("MaxPool", [((1, 8, 12, 12), F32)], (1, 8, 6, 6), kernel_shape=kernel)
    assert _work(graph).flops == 8 * 36 * kernel[0] * kernel[1]


@pytest.mark.parametrize("axis", [1, -1])
def test_a_selection_costs_by_how_many_are_kept_not_by_how_often(axis):
    few = single("TopK", [((4096, 64), F32), ((1,), "int64")], (4096, 2), axis=axis)
    assert _work(few).flops == 2 * 4096 * 64


def test_lstm_uses_each_weight_once_a_token():
    steps, batch, size, hidden = 7, 3, 10, 20
    inputs = [((steps, batch, size), F32), ((1, 4 * hidden, size), F32), ((1, 4 * hidden, hidden), F32)]
    work = _work(single("LSTM", inputs, (steps, 1, batch, hidden), hidden_size=hidden))
    products = 2 * steps * batch * 4 * hidden * (size + hidden)
    assert products <= work.flops <= 1.2 * products
    assert work.launches == 1 + steps


def _body(op_type: str, shape: tuple[int, ...]) -> Graph:
    return single(op_type, [(shape, F32)], shape)


def test_if_costs_its_dearer_branch():
    cheap, dear = _body("Relu", (10,)), _body("Relu", (1000,))
    graph = single("If", [((), "bool")], (1000,), bodies=(cheap, dear))
    assert _work(graph).flops == 1000
    assert _work(graph).bytes_moved == 2 * 1000 * 4


def test_loop_runs_as_often_as_its_scan_output_is_long():
    graph = single(
        "Loop", [((), "int64"), ((), "bool"), ((10,), F32)], [(10,), (5, 10)], bodies=(_body("Relu", (10,)),)
    )
    assert _work(graph).flops == 5 * 10
    assert _work(graph).launches == 5 * 2


def test_scan_runs_as_often_as_its_input_is_long():
    inputs = [((10,), F32), ((6, 10), F32)]
    graph = single("Scan", inputs, [(10,), (6, 10)], bodies=(_body("Relu", (10,)),), num_scan_inputs=1)
    assert _work(graph).flops == 6 * 10


def test_a_body_op_without_a_formula_is_still_charged():
    graph = single("If", [((), "bool")], (10,), bodies=(_body("Mystery", (10,)),))
    assert _work(graph).flops > 0


def test_an_op_without_a_formula_has_no_work():
    graph = single("Mystery", [((10,), F32)], (10,))
    assert work_of(graph.ops[0], graph) is None
    graph = single("Add", [((10,), F32)], (10,), domain="my.domain")
    assert work_of(graph.ops[0], graph) is None


def test_a_second_formula_for_the_same_question_raises():
    table: Table[float] = Table("flops")
    table.add(lambda _: 1.0, ("Add",))
    with pytest.raises(ValueError, match=r"ai\.onnx\.Add has two formulas"):
        table.add(lambda _: 2.0, ("Add",))
    table.add(lambda _: 2.0, ("Add",), domain="com.microsoft")


def test_works_add_up():
    first, second = Work(1.0, 2, 3, 4, 5), Work(10.0, 20, 30, 40, 50)
    assert first + second == Work(11.0, 22, 33, 44, 55)
    assert first.repeated(3) == Work(3.0, 6, 9, 12, 15)
    assert first.bytes_moved == 5
    assert first.intensity == pytest.approx(0.2)
    assert NO_WORK.intensity == 0.0


dimension = st.one_of(st.none(), st.integers(0, 5))
shape = st.one_of(st.none(), st.lists(dimension, max_size=5).map(tuple))
dtype = st.sampled_from(["float32", "float16", "int64", "bool", "int4", "string", ""])
tensor = st.tuples(shape, dtype)
attributes = st.dictionaries(
    st.sampled_from(
        ["axis", "transA", "kernel_shape", "group", "num_heads", "hidden_size", "layout", "k", "mode", "equation",
         "num_scan_inputs", "scan_input_axes",
         "scan_output_axes", "direction", "block_size", "unidirectional",
         "sampling_ratio", "nodes_treeids", "coefficients", "bits", "N", "K"]
    ),
    st.one_of(st.integers(0, 4), st.just(()), st.tuples(st.integers(0, 4)), st.sampled_from(["", "ij,jk", "...i"])),
)  # fmt: skip
every_key = sorted({*flops.keys(), *whole.keys()})


@given(
    key=st.sampled_from(every_key),
    inputs=st.lists(st.one_of(st.none(), tensor), max_size=9),
    outputs=st.lists(shape, max_size=3),
    options=attributes,
)
@example(key=("", "STFT"), inputs=[], outputs=[(None, 0)], options={})
@settings(max_examples=500, deadline=None)
def test_no_shape_dtype_or_attribute_makes_a_formula_raise(key, inputs, outputs, options):
    b = Builder()
    ids = [None if i is None else b.value(*i) for i in inputs]
    b.op(key[1], ids, outputs, domain=key[0], bodies=(_body("Relu", (2,)),), **options)
    graph = b.graph()
    work = _work(graph)
    for provider in Provider:
        assert all(
            block.nbytes >= 0 for held in kernel_scratch(graph, Lane(provider, 2)).values() for block in held.blocks
        )
    assert work.flops >= 0
    assert min(work.bytes_read, work.bytes_written, work.bytes_scattered, work.launches) >= 0
    assert isinstance(work.bytes_read + work.bytes_written + work.bytes_scattered, int)


def test_unknown_dimensions_are_estimated_from_the_bytes():
    b = Builder()
    x = b.value((2, None, 3), F32, nbytes=2 * 50 * 3 * 4)
    b.op("MatMul", [x, b.weight((3, 4))], (2, 50, 4))
    graph = b.graph()
    assert Operands.of(graph.ops[0], graph).shape(0) == (2, 50, 3)


def test_sequences_have_no_elements():
    b = Builder()
    b.op("SequenceAt", [b.value(None, "", kind=ValueKind.SEQUENCE), b.value((), "int64")], (3,))
    assert _work(b.graph()).flops == 0


def bytes_of(op_type: str, inputs: list[tuple[tuple[int, ...], str]], shape: Any, **options: Any) -> tuple[int, int]:
    graph = single(op_type, [*inputs], shape, **options)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    return work.bytes_read, work.bytes_written


@pytest.mark.parametrize(
    ("op_type", "inputs", "shape", "read", "written"),
    [
        # A row of 8 added to 32 rows: read once, however often it is used.
        ("Add", [((32, 8), "float32"), ((8,), "float32")], (32, 8), 1024 + 32, 1024),
        ("Where", [((32, 1), "bool"), ((32, 8), "float32"), ((1,), "float32")], (32, 8), 32 + 1024 + 4, 1024),
        # Of 1000 rows the two that are written, not the table.
        ("Slice", [((1000, 8), "float32"), ((1,), "int64"), ((1,), "int64")], (2, 8), 64, 64),
        ("Split", [((1000, 8), "float32")], [(500, 8), (500, 8)], 32_000, 32_000),
        # One row is read to be written 1000 times.
        ("Expand", [((1, 8), "float32"), ((2,), "int64")], (1000, 8), 32, 32_000),
        ("Concat", [((10, 8), "float32"), ((20, 8), "float32")], (30, 8), 960, 960),
        ("Pad", [((10, 8), "float32"), ((4,), "int64")], (12, 8), 320, 384),
        # 64 ids of 8 bytes and 64 rows of 32.
        ("Gather", [((100_000, 8), "float32"), ((64,), "int64")], (64, 8), 64 * 8 + 64 * 32, 64 * 32),
        ("GatherElements", [((100_000, 8), "float32"), ((64, 8), "int64")], (64, 8), 512 * 8 + 512 * 4, 512 * 4),
        ("GatherND", [((100_000, 8), "float32"), ((64, 1), "int64")], (64, 8), 64 * 8 + 64 * 32, 64 * 32),
        # Ten rows are read once, however often they are asked for.
        ("Gather", [((10, 8), "float32"), ((6400,), "int64")], (6400, 8), 6400 * 8 + 320, 6400 * 32),
    ],
)
def test_bytes_by_hand(op_type, inputs, shape, read, written):
    assert bytes_of(op_type, inputs, shape) == (read, written)
