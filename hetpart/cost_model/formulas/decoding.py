"""Ops that decoders of language models are exported with: sparse and linear attention, their gates, n-grams.

Their arithmetic is that of their schemas in ONNX Runtime; softmax, normalization and rotation count as they do alone.
"""

from __future__ import annotations

from hetpart.cost_model.formulas.attention import LINEAR_FLOPS, SOFTMAX_FLOPS
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops, no_arithmetic, per_input_element

NORMALIZED = 5.0
"""Per element of an RMS normalization."""
ROTATED = 3.0
"""Per element of a rotary embedding."""
HASHED = 15.0
"""Per element of MurmurHash3: a round and its finish."""

no_arithmetic(("SampleOp",), CONTRIB)
per_input_element({"DynamicTimeWarping": 3, "MurmurHash3": HASHED}, CONTRIB)


def _dimension(o: Operands, position: int, axis: int) -> int:
    """A size of an input; 1 where the input is left out or has no such axis."""
    shape = o.shape(position)
    return shape[axis] if -len(shape) <= axis < len(shape) else 1


@flops("DecoderAttention", domain=CONTRIB)
def _decoder_attention(o: Operands) -> float:
    """Both inputs are projected, [tokens, batch, hidden] as they are; the new cache holds what queries meet."""
    hidden = _dimension(o, 0, -1)
    keys = o.output_shape(1)[-2] if len(o.output_shape(1)) > 1 else _dimension(o, 1, 0)
    projections = 2.0 * hidden * o.numel(0) + 2.0 * 2.0 * hidden * o.numel(1)
    scores = o.numel(0) // max(1, hidden // max(1, o.integer("num_heads", 1))) * keys
    return projections + 4.0 * o.numel(0) * keys + SOFTMAX_FLOPS * scores


@flops("DynamicSparseAttention", domain=CONTRIB)
def _dynamic_sparse_attention(o: Operands) -> float:
    """Queries meet what was selected for them and, in one mode, a window of neighbours."""
    local = o.integer("local_window_size", 0) if o.attribute("attention_mode", "") == "local_plus_selected" else 0
    keys = _dimension(o, 7, -1) + local
    head_size = max(1, _made(o)[-1] // max(1, o.integer("num_heads", 1)))
    return 4.0 * o.output_numel() * keys + SOFTMAX_FLOPS * (o.output_numel() // head_size) * keys


def _made(o: Operands) -> tuple[int, ...]:
    return o.output_shape() or (1,)


@flops("GatedDeltaNet", domain=CONTRIB)
def _gated_delta_net(o: Operands) -> float:
    """A state of key size × value size per head, updated by every token."""
    key_size = _dimension(o, 6 if o.input(6) is not None else 1, -1)
    rule = LINEAR_FLOPS.get(str(o.attribute("update_rule", "gated_delta")), LINEAR_FLOPS["gated_delta"])
    normalized = NORMALIZED * (o.numel(0) + o.numel(1)) if o.integer("qk_l2_norm", 0) else 0.0
    return rule * o.output_numel() * key_size + normalized


@flops("LinearAttentionGate", domain=CONTRIB)
def _linear_attention_gate(o: Operands) -> float:
    """A sum, a Softplus and a product; a Sigmoid."""
    return 10.0 * o.output_numel(0) + 4.0 * o.output_numel(1)


def _indexed(o: Operands, entries: int) -> float:
    """Every head of every query scores every entry, by a product, a ReLU and a sum."""
    head_size = max(1, _dimension(o, 2, -1))
    packed = o.input(1) is None
    width = max(1, _dimension(o, 0, -1) - (head_size if packed else 0))
    queries = o.numel(0) // max(1, _dimension(o, 0, -1)) * width
    prepared = (NORMALIZED + ROTATED) * queries
    return prepared + (2.0 * queries + 2.0 * (queries // head_size)) * entries


@flops("SparseAttentionIndexer", domain=CONTRIB)
def _sparse_attention_indexer(o: Operands) -> float:
    """The cache holds compressed entries, or raw keys that are pooled into blocks first."""
    cache = o.output_shape(1)
    tokens = cache[1] if len(cache) > 1 else _dimension(o, 1, 1)
    raw = o.attribute("policy_mode", "qsa") == "qsa"
    entries = tokens // max(1, o.integer("compress_ratio", 1)) if raw else tokens
    return _indexed(o, entries) + (o.output_numel(1) if raw else SOFTMAX_FLOPS * o.numel(1))


@flops("PackedSparseAttentionIndexer", domain=CONTRIB)
def _packed_sparse_attention_indexer(o: Operands) -> float:
    """Entries are compressed or pooled once, when their last token comes."""
    return _indexed(o, o.integer("state_capacity", 1)) + SOFTMAX_FLOPS * o.numel(1)


@flops("VarlenCausalConvWithState", domain=CONTRIB)
def _causal_convolution(o: Operands) -> float:
    """Depthwise, with a bias and an activation on top."""
    return o.output_numel() * (2.0 * _dimension(o, 1, -1) + 2)


@flops("EngramGate", domain=CONTRIB)
def _engram_gate(o: Operands) -> float:
    """Keys and queries are normalized and multiplied, values are gated and perhaps normalized."""
    return (2 * NORMALIZED + 3) * o.numel(0) + NORMALIZED * o.output_numel(1)


@flops("HyperConnectionPreMix", domain=CONTRIB)
def _hyper_connection_before(o: Operands) -> float:
    return 2.0 * o.numel(0) + o.output_numel()


@flops("HyperConnectionPostMix", domain=CONTRIB)
def _hyper_connection_behind(o: Operands) -> float:
    """A product with a small matrix for each token, and what the branch adds."""
    branches = _dimension(o, 3, -1) if o.input(3) is not None else 0
    return (2.0 * branches + 2.0) * o.numel(0)


@flops("NGramHashMapping", "VarlenNGramHashMapping", domain=CONTRIB)
def _hashed_grams(o: Operands) -> float:
    """Each longer n-gram takes a product and a XOR more; each head a modulo and an offset."""
    longest = o.integer("max_ngram_size", 2)
    return 2.0 * longest * o.numel(0) + 2.0 * o.output_numel()


@flops("NGramRepeatBlock", domain=CONTRIB)
def _repeated_grams(o: Operands) -> float:
    """The last tokens are compared with those at every position."""
    return float(o.numel(0) * o.integer("ngram_size", 1))


@flops("BifurcationDetector", domain=CONTRIB)
def _bifurcation(o: Operands) -> float:
    """Suffixes of every length are looked for at every position."""
    return float(o.numel(0) * o.integer("max_ngram_size", 1))
