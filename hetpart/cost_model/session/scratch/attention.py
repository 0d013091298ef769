"""Attention: operands laid out by head, and scores of every pair, or of a tile of pairs where the kernel is tiled."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.attention import PROJECTING, SEPARATE, scores
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, Trace, at_once, scratch
from hetpart.devices import Provider

L2_BYTES = 2 << 20
"""Second cache of a core, which tiles are made for: that of a server of 2023. One of 1 MiB halves tiles above 512."""
POINTERS = 64
"""Bytes that a batched product holds for each of its products."""
TILED = "MultiHeadAttention"
UNTILED_INPUTS = (4, 5, 6, 7)
"""Masks, biases and earlier tokens: with one of them, MultiHeadAttention keeps all scores."""
BIAS, PADDING, PAST_KEY = 3, 4, 6
"""Inputs of MultiHeadAttention."""
SOFTENED = ("softcap", "smooth_softmax")
"""Attributes with which GroupQueryAttention keeps all scores."""
HEAD_SINK, SCORES_OUT = 11, 3
"""Input and output of the same effect: what a head adds to its sums, and scores that are returned."""
MASK, KEY_LENGTHS = 3, 6
"""Inputs of ai.onnx's Attention."""


def _score_bytes(o: Operands) -> int:
    first = o.input(0)
    return 0 if first is None else round(scores(o) * element_bytes(first))


@scratch("Attention", providers=(Provider.CUDA,))
@scratch(*SEPARATE, *PROJECTING, domain=CONTRIB, providers=(Provider.CUDA,))
@scratch(
    *(kind for kind in (*SEPARATE, *PROJECTING)
      if kind not in (TILED, "GroupQueryAttention", "Attention", "QAttention")),
    domain=CONTRIB,
)  # fmt: skip
def _all_scores(o: Operands, _: int) -> Scratch:
    """The scores, as a kernel that is not tiled keeps them."""
    return at_once(_score_bytes(o))


@scratch("Attention")
def _standard(o: Operands, threads: int) -> Scratch:
    """The scores, then a mask that is no sum yet, or is made; of halves those of a head as floats too.

    Each thread works on a head.
    """
    mask, first = o.input(MASK), o.input(0)
    causal = bool(o.integer("is_causal", 0))
    width = element_bytes(first) if first is not None else FLOAT_BYTES
    own = 0.0
    if mask is not None and (causal or mask.dtype == "bool"):
        own = mask.numel * width
    elif mask is None and causal and o.input(KEY_LENGTHS) is None:
        own = _queries(o) * scores(o) / max(1, _pairs(o)) * width
    return at_once(_score_bytes(o), own, *([_head_bytes(o)] * threads if width < FLOAT_BYTES else []))


def _head_bytes(o: Operands) -> int:
    """Scores of one head as floats."""
    return FLOAT_BYTES * _queries(o) * _keys(o)


def _queries(o: Operands) -> int:
    """Tokens that ask."""
    shape = o.shape(0)
    return shape[-2] if len(shape) > 1 else 1


def _pairs(o: Operands) -> int:
    """Queries of every head of every sequence."""
    shape = o.shape(0)
    heads = shape[1] if len(shape) > 3 else o.integer("q_num_heads", o.integer("num_heads", 1))
    return max(1, shape[0] if shape else 1) * max(1, heads) * _queries(o)


def _keys(o: Operands) -> int:
    return scores(o) // max(1, _pairs(o))


def _tile_bytes(queries: int, keys: int, key_size: int, value_size: int) -> int:
    """What a thread holds of a tile: its scores, its sums, and its largest score and sum of each query.

    Tiles are made so that their operands fill three quarters of the second cache.
    """
    rows = _tile_rows(key_size, value_size)
    high, wide = min(rows, key_size + value_size, queries), min(rows, keys)
    return FLOAT_BYTES * high * (2 + wide + value_size)


def _tile_rows(key_size: int, value_size: int) -> int:
    """Most keys of a tile."""
    return max(1, L2_BYTES // (4 * FLOAT_BYTES * max(1, key_size + value_size)))


@scratch(TILED, domain=CONTRIB)
def _multi_head(o: Operands, threads: int) -> Scratch:
    trace, heads = Trace(), max(1, o.integer("num_heads", 1))
    for position in range(3):
        _by_head(o, position, trace)
    size = (o.output_shape() or (1,))[-1] // heads
    if _is_tiled(o):
        key_size = (o.shape(0) or (1,))[-1] // heads
        trace.take(threads * _tile_bytes(_queries(o), _keys(o), key_size, size))
    else:
        batch = (o.shape(0) or (1,))[0]
        trace.take(_mask_bytes(o, batch))
        _untiled(o, batch * heads, trace)
    return trace.scratch()


def _is_tiled(o: Operands) -> bool:
    """Whether MultiHeadAttention works on tiles: nothing bends the scores, and the keys come by token."""
    plain = all(o.input(position) is None for position in UNTILED_INPUTS) and len(o.shape(1)) < 4
    return plain and o.output(1) is None and not o.integer("unidirectional", 0)


def _mask_bytes(o: Operands, batch: int) -> int:
    """A padding mask as sums; one of lengths or keys has a row of each sequence, any other one of each query."""
    flat = not o.integer("unidirectional", 0) and len(o.shape(PADDING)) < 3
    if flat and o.input(PADDING) is None:
        return 0
    return FLOAT_BYTES * batch * _keys(o) * (1 if flat else _queries(o))


def _untiled(o: Operands, products: int, trace: Trace) -> None:
    for nbytes in (_score_bytes(o), o.output_nbytes(), POINTERS * products):
        trace.take(nbytes)


def _by_head(o: Operands, position: int, trace: Trace) -> None:
    """A copy of an operand that lies by token, and before it one with the bias on it."""
    if len(o.shape(position)) > 3:
        return
    if o.input(BIAS) is None:
        trace.take(o.nbytes(position))
        return
    biased = trace.take(o.nbytes(position)), trace.take(o.nbytes(BIAS) // 3)
    trace.take(o.nbytes(position))
    trace.give_back(*biased)


@scratch("GroupQueryAttention", domain=CONTRIB)
def _grouped(o: Operands, threads: int) -> Scratch:
    """Operands by head, rotated query and key beside them, and all scores or what a thread holds of them."""
    trace = Trace()
    operands = [o.nbytes(position) for position in range(3)]
    for nbytes in (*operands, *(operands[:2] if o.integer("do_rotary", 0) else ())):
        trace.take(nbytes)
    heads, first = _grouped_heads(o), o.input(0)
    if first is not None and element_bytes(first) < FLOAT_BYTES:
        _of_halves(o, min(threads, heads), trace)
    elif _is_streamed(o):
        trace.take(_streamed_bytes(o, threads))
    else:
        trace.take(_score_bytes(o))
    return trace.scratch()


def _grouped_heads(o: Operands) -> int:
    """Of all sequences."""
    return max(1, (o.shape(0) or (1,))[0]) * max(1, o.integer("num_heads", 1))


def _grouped_keys(o: Operands) -> int:
    return scores(o) // (_grouped_heads(o) * _queries(o))


def _head_size(o: Operands) -> int:
    return (o.output_shape() or (1,))[-1] // max(1, o.integer("num_heads", 1))


def _is_streamed(o: Operands) -> bool:
    """Whether GroupQueryAttention sums up as it goes: no score is bent, or returned, and there is more than one key."""
    softened = any(o.attribute(name, 0) for name in SOFTENED) or o.input(HEAD_SINK) is not None
    return not softened and o.output(SCORES_OUT) is None and _grouped_keys(o) > 1


def _streamed_bytes(o: Operands, threads: int) -> int:
    """A tile for each thread. One query has a row of scores and its sums.

    Where threads outnumber such rows, and keys fill more than a tile, each has its share of them, and every head its
    sums, its largest score and its sum for each tile.
    """
    queries, keys, size, heads = _queries(o), _grouped_keys(o), _head_size(o), _grouped_heads(o)
    if queries > 1:
        return threads * _tile_bytes(queries, keys, size, size)
    rows = _tile_rows(size, size)
    if heads < threads and keys > rows:
        return FLOAT_BYTES * (threads * rows + heads * -(-keys // rows) * (2 + size))
    return threads * FLOAT_BYTES * (keys + size)


def _of_halves(o: Operands, threads: int, trace: Trace) -> None:
    """All scores as floats; for each thread what it multiplies of a head, for the scores, then for the sums."""
    queries, keys, size = _queries(o), _grouped_keys(o), _head_size(o)
    trace.take(_score_bytes_of_floats(o))
    trace.give_back(*(trace.take(FLOAT_BYTES * size * (queries + keys)) for _ in range(threads)))
    trace.take(FLOAT_BYTES * prod(o.output_shape()))
    for _ in range(threads):
        trace.take(FLOAT_BYTES * keys * size)


@scratch("Attention", "QAttention", domain=CONTRIB)
def _projecting(o: Operands, _: int) -> Scratch:
    """Query, key and value, then scores and sums."""
    shape, heads = o.shape(0), max(1, o.integer("num_heads", 1))
    batch, tokens = (*shape, 1, 1)[:2]
    masks = o.shape(MASK if o.op.op_type == "Attention" else 5)
    causal = o.integer("unidirectional", 0) and tokens > 1
    rows = tokens if causal or len(masks) > 2 else 1
    mask = FLOAT_BYTES * batch * rows * scores(o) // max(1, batch * heads * tokens) if masks or causal else 0
    projected = FLOAT_BYTES * batch * tokens * (o.shape(1) or (1,))[-1]
    return at_once(
        projected, mask, _score_bytes_of_floats(o), POINTERS * batch * heads, prod(o.output_shape()) * FLOAT_BYTES
    )


def _score_bytes_of_floats(o: Operands) -> int:
    return scores(o) * FLOAT_BYTES
