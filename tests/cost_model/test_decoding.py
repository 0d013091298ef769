"""Work of decoders' ops, against the ops that their schemas are made of and against loops that count."""

from __future__ import annotations

import pytest

from hetpart.cost_model.formulas import work_of
from hetpart.cost_model.formulas.attention import SOFTMAX_FLOPS
from hetpart.cost_model.formulas.decoding import NORMALIZED, ROTATED
from hetpart.cost_model.formulas.table import CONTRIB
from hetpart.graph.ir import Graph
from tests.cost_model.build import single

F32, I32, BOOL = "float32", "int32", "bool"


def flops(graph: Graph) -> float:
    work = work_of(graph.ops[0], graph)
    assert work is not None
    return work.flops


def product(left: tuple[int, ...], right: tuple[int, ...]) -> float:
    made = (*left[:-1], right[-1])
    return flops(single("MatMul", [(left, F32), (right, F32)], made))


@pytest.mark.parametrize("cached", [12, 20])
def test_decoder_attention_is_its_products_and_a_softmax(cached):
    tokens, keys, batch, heads, size = 5, 12, 2, 4, 8
    hidden = heads * size
    graph = single(
        "DecoderAttention",
        [((tokens, batch, hidden), F32), ((keys, batch, hidden), F32), ((hidden, hidden), F32),
         ((hidden, 2 * hidden), F32), ((3 * hidden,), F32), ((batch, cached), BOOL)],
        [(tokens, batch, hidden), (batch, heads, cached, size), (batch, heads, cached, size)],
        domain=CONTRIB, num_heads=heads,
    )  # fmt: skip
    projections = product((tokens, batch, hidden), (hidden, hidden)) + product(
        (keys, batch, hidden), (hidden, 2 * hidden)
    )
    pairs = batch * heads
    attended = pairs * (product((tokens, size), (size, cached)) + product((tokens, cached), (cached, size)))
    assert flops(graph) == projections + attended + SOFTMAX_FLOPS * pairs * tokens * cached


@pytest.mark.parametrize(("mode", "keys"), [("selected_only", 6), ("local_plus_selected", 6 + 16)])
def test_sparse_attention_meets_what_was_selected(mode, keys):
    batch, tokens, heads, size = 2, 3, 4, 8
    query = ((batch, tokens, heads * size), F32)
    graph = single(
        "DynamicSparseAttention",
        [query, query, query, None, None, None, None, ((batch * tokens, 6), I32), ((batch * tokens,), I32)],
        (batch, tokens, heads * size),
        domain=CONTRIB, num_heads=heads, attention_mode=mode, local_window_size=16,
    )  # fmt: skip
    rows = batch * tokens * heads
    both = rows * (product((1, size), (size, keys)) + product((1, keys), (keys, size)))
    assert flops(graph) == both + SOFTMAX_FLOPS * rows * keys


@pytest.mark.parametrize(("rule", "terms"), [("linear", 4), ("gated", 5), ("delta", 8), ("gated_delta", 9)])
def test_a_delta_net_updates_its_state_by_every_token(rule, terms):
    """Reading S^T q and adding an outer product take 2 each; S^T k and the difference 4; the decay 1."""
    tokens, heads, keys, values = 7, 3, 4, 5
    graph = single(
        "GatedDeltaNet",
        [((tokens, heads, keys), F32), ((tokens, heads, keys), F32), ((tokens, heads, values), F32), None,
         ((tokens, heads), F32), ((tokens, heads), F32), ((1, heads, values, keys), F32)],
        [(tokens, heads, values), (1, heads, values, keys)],
        domain=CONTRIB, update_rule=rule,
    )  # fmt: skip
    assert flops(graph) == sum(terms for _ in range(tokens) for _ in range(heads * keys * values))


def test_a_delta_net_of_packed_operands_takes_its_sizes_from_the_state():
    tokens, heads, keys, values = 7, 3, 4, 5
    packed = heads * (2 * keys + values)
    inputs = [((tokens, packed), F32), None, None, None, None, None, ((1, heads, values, keys), F32)]
    graph = single("GatedDeltaNet", inputs, (tokens, heads, values), domain=CONTRIB, update_rule="linear")
    assert flops(graph) == 4 * tokens * heads * keys * values


def indexer(packed: bool, **attributes):
    batch, tokens, heads, size, cached = 2, 3, 4, 8, 24
    width = heads * size + (size if packed else 0)
    key = None if packed else ((batch, tokens, size), F32)
    return single(
        "SparseAttentionIndexer",
        [((batch, tokens, width), F32), key, ((size,), F32), ((size,), F32)],
        [(batch, tokens, 9), (batch, cached, size)],
        dtype=F32, domain=CONTRIB, compress_ratio=4, **attributes,
    )  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("mode", "entries"), [("qsa", 24 // 4), ("csa", 24)])
def test_an_indexer_scores_every_entry_with_every_head(packed, mode, entries):
    """Entries are blocks of raw keys, which are summed up, or compressed ones, made by a softmax over new keys."""
    batch, tokens, heads, size, cached = 2, 3, 4, 8, 24
    queries = batch * tokens * heads
    scored = queries * (product((1, size), (size, entries)) + 2 * entries)
    new = 0 if packed else batch * tokens * size
    pooled = batch * cached * size if mode == "qsa" else SOFTMAX_FLOPS * new
    prepared = (NORMALIZED + ROTATED) * queries * size
    assert flops(indexer(packed, policy_mode=mode)) == prepared + scored + pooled


def test_a_mix_of_streams_is_a_product_for_every_token():
    tokens, branches, hidden = 6, 4, 16
    streams = ((tokens, branches, hidden), F32)
    inputs = [streams, ((tokens, hidden), F32), ((tokens, branches), F32), ((tokens, branches, branches), F32)]
    mixed = single("HyperConnectionPostMix", inputs, (tokens, branches, hidden), domain=CONTRIB)
    added = single("HyperConnectionPostMix", inputs[:3], (tokens, branches, hidden), domain=CONTRIB)
    assert flops(mixed) - flops(added) == tokens * product((branches, branches), (branches, hidden))
    assert flops(added) == 2 * tokens * branches * hidden


def test_a_varlen_convolution_counts_as_the_one_of_equal_lengths():
    tokens, channels, width = 10, 6, 4
    varlen = single(
        "VarlenCausalConvWithState",
        [((tokens, channels), F32), ((channels, 1, width), F32), ((3,), I32)],
        (tokens, channels),
        domain=CONTRIB,
    )
    equal = single(
        "CausalConvWithState",
        [((1, channels, tokens), F32), ((channels, 1, width), F32)],
        (1, channels, tokens),
        domain=CONTRIB,
    )
    assert flops(varlen) == flops(equal)
