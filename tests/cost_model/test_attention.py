"""Attention in all its layouts: its flops by hand, and its peaks where keys and values differ as the arena has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from hetpart.cost_model.formulas import work_of
from hetpart.cost_model.formulas.attention import SOFTMAX_FLOPS, scores
from hetpart.cost_model.formulas.operands import Operands
from hetpart.graph.ir import Shape
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.build import single
from tests.cost_model.float_models import feeds_of
from tests.cost_model.test_scratch import REACH, between

F32, I32, CONTRIB = "float32", "int32", "com.microsoft"
BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 32, 64, 8
WIDTH = HEADS * SIZE
Inputs = list[tuple[Shape | None, str] | None]


def floats(*shapes: Shape) -> Inputs:
    return [(shape, F32) for shape in shapes]


def agrees(
    op_type: str, inputs: Inputs, made: Shape, pairs: int, sizes: tuple[int, int], projected: int = 0, **options: Any
) -> None:
    """By hand: two flops for each pair and element of its key and its value, and a softmax."""
    graph = single(op_type, inputs, made, **options)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == projected + 2 * pairs * sum(sizes) + SOFTMAX_FLOPS * pairs
    assert scores(Operands.of(graph.ops[0], graph)) == pairs


PACKED: dict[str, tuple[Inputs, int]] = {
    "apart": (floats((BATCH, QUERIES, WIDTH), *[(BATCH, KEYS, WIDTH)] * 2), KEYS),
    "query, key and value in one": (floats((BATCH, QUERIES, HEADS, 3, SIZE)), QUERIES),
    "key and value in one": (floats((BATCH, QUERIES, WIDTH), (BATCH, KEYS, HEADS, 2, SIZE)), KEYS),
    "keys and values by head": (floats((BATCH, QUERIES, WIDTH), *[(BATCH, HEADS, KEYS, SIZE)] * 2), KEYS),
}


@pytest.mark.parametrize("layout", PACKED)
def test_multi_head_attention_counts_alike_in_every_layout(layout: str) -> None:
    inputs, keys = PACKED[layout]
    pairs, made = BATCH * HEADS * QUERIES * keys, (BATCH, QUERIES, WIDTH)
    agrees("MultiHeadAttention", inputs, made, pairs, (SIZE, SIZE), domain=CONTRIB, num_heads=HEADS)


@pytest.mark.parametrize("packed", [True, False])
def test_sequences_without_padding_compare_the_tokens_of_a_sequence(packed: bool) -> None:
    sequences, longest = 4, 16
    tokens = sequences * longest
    lengths: Inputs = [((sequences, longest), I32), ((sequences + 1,), I32)]
    pairs, made = HEADS * tokens * longest, (tokens, WIDTH)
    options: Any = {"domain": CONTRIB, "num_heads": HEADS}
    operands: Inputs = [*floats((tokens, HEADS, 3, SIZE)), None, None] if packed else floats(*[(tokens, WIDTH)] * 3)
    agrees("PackedMultiHeadAttention", [*operands, None, *lengths], made, pairs, (SIZE, SIZE), **options)
    projecting = [*floats((tokens, 24), (24, 3 * WIDTH), (3 * WIDTH,)), *lengths]
    projected = 2 * tokens * 24 * 3 * WIDTH
    agrees("PackedAttention", projecting, made, pairs, (SIZE, SIZE), projected, **options)


@pytest.mark.parametrize(("tokens", "packed"), [(1, False), (7, False), (7, True)])
def test_paged_attention_compares_with_the_blocks_of_a_sequence(tokens: int, packed: bool) -> None:
    block, blocks, kept, size = 256, 16, 2, 64
    widths = [HEADS * size, kept * size, kept * size]
    cache = floats((40, block, kept, size), (40, block, kept, size))
    operands: Inputs = [*floats((tokens, sum(widths))), None, None]
    apart = floats(*[(tokens, width) for width in widths])
    table: Inputs = [((2,), I32), ((1,), I32), ((1, blocks), I32)]
    inputs = [*(operands if packed else apart), *cache, *table]
    pairs, made = HEADS * tokens * block * blocks, (tokens, widths[0])
    agrees("PagedAttention", inputs, made, pairs, (size, size), domain=CONTRIB, num_heads=HEADS, kv_num_heads=kept)


@pytest.mark.parametrize(
    ("mode", "window", "keys"),
    [("selected_only", 16, 6), ("local_plus_selected", 16, 6 + 16), ("local_plus_selected", -1, 6 + 3 * 128)],
)
def test_sparse_paged_attention_compares_with_what_was_selected(mode: str, window: int, keys: int) -> None:
    tokens = 5
    cache = floats((40, 128, HEADS, SIZE), (40, 128, HEADS, SIZE))
    table: Inputs = [((2,), I32), ((1,), I32), ((1, 3), I32), None, ((tokens, 6), I32), ((tokens,), I32)]
    inputs = [*floats(*[(tokens, WIDTH)] * 3), *cache, *table]
    options: Any = {"attention_mode": mode, "local_window_size": window, "num_heads": HEADS, "kv_num_heads": HEADS}
    pairs = HEADS * tokens * keys
    agrees("SparsePagedAttention", inputs, (tokens, WIDTH), pairs, (SIZE, SIZE), domain=CONTRIB, **options)


def test_attention_that_projects_by_three_weights_counts_all_three() -> None:
    given, weights, scalar = (BATCH, QUERIES, WIDTH), floats(*[(WIDTH, WIDTH)] * 3), floats(())
    inputs = [*floats(given), *scalar * 4, *weights, *scalar * 9]
    pairs, projected = BATCH * HEADS * QUERIES**2, 2 * BATCH * QUERIES * WIDTH * 3 * WIDTH
    agrees("QOrderedAttention", inputs, given, pairs, (SIZE, SIZE), projected, domain=CONTRIB, num_heads=HEADS)


WIDE = 16


@pytest.mark.parametrize("by_head", [True, False])
def test_values_wider_than_keys_count_as_they_are(by_head: bool) -> None:
    sizes, tokens = (SIZE, SIZE, WIDE), (4, 6, 6)
    shapes: list[Shape] = [
        (1, 2, count, size) if by_head else (1, count, 2 * size) for count, size in zip(tokens, sizes, strict=True)
    ]
    made = (1, 2, 4, WIDE) if by_head else (1, 4, 2 * WIDE)
    heads = {} if by_head else {"q_num_heads": 2, "kv_num_heads": 2}
    agrees("Attention", floats(*shapes), made, 2 * 4 * 6, (SIZE, WIDE), version=23, **heads)


def test_wider_values_of_contributed_attention_count_as_they_are() -> None:
    made = (BATCH, QUERIES, HEADS * WIDE)
    options: Any = {"domain": CONTRIB, "num_heads": HEADS}
    inputs = floats((BATCH, QUERIES, WIDTH), (BATCH, KEYS, WIDTH), (BATCH, KEYS, HEADS * WIDE))
    agrees("MultiHeadAttention", inputs, made, BATCH * HEADS * QUERIES * KEYS, (SIZE, WIDE), **options)
    widths = (WIDTH, WIDTH, HEADS * WIDE)
    projecting = floats((BATCH, QUERIES, 24), (24, sum(widths)), (sum(widths),))
    projected = 2 * BATCH * QUERIES * 24 * sum(widths)
    pairs = BATCH * HEADS * QUERIES**2
    agrees("Attention", projecting, made, pairs, (SIZE, WIDE), projected, qkv_hidden_sizes=widths, **options)


@pytest.mark.parametrize("sizes", [(192, 128), (128, 32), (32, 128)])
@pytest.mark.parametrize("causal", [0, 1])
def test_peaks_where_values_differ_from_keys_are_those_of_onnx_runtime(
    sizes: tuple[int, int], causal: int, tmp_path: Path
) -> None:
    key, value = ((1, 4, 256, size) for size in sizes)
    node = helper.make_node("Attention", ["q", "k", "v"], ["out"], is_causal=causal)
    model = between(node, {"q": key, "k": key, "v": value}, value, {}, opset=23)
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)
