"""Mixtures of experts: what the CPU lays out of the tokens that are sent to each."""

from __future__ import annotations

from collections.abc import Iterator

from hetpart.cost_model.formulas.experts import packed
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, at_once, scratch

MOST_WORKERS = 8
"""Threads that experts are spread over."""
ROOM, LEAST_ROOM = 2, 512
"""A thread makes room for twice the tokens of the expert that has most, and no less than for so many."""
PADDED = 64
"""Elements that a workspace's parts are padded to."""
NUMBER_BYTES = 8
"""Of where a token stands."""


@scratch("MoE", domain=CONTRIB)
def _mixture(o: Operands, threads: int) -> Scratch:
    """Where each token goes, what every thread works with, and the sums of all; tokens go evenly to the experts.

    Where shares are normalized, the tokens are copied before.
    """
    hidden, experts = (max(1, (1, *o.shape(position))[-1]) for position in (0, 1))
    tokens, sent = o.numel(0) // hidden, o.integer("k", 1)
    source = o.input(0)
    size = FLOAT_BYTES if source is None else element_bytes(source)
    whole, routes = tokens * hidden * FLOAT_BYTES, tokens * sent * FLOAT_BYTES
    workers = min(threads, experts, MOST_WORKERS)
    rows = max(LEAST_ROOM, ROOM * -(-tokens * sent // experts))
    widened = (tokens * experts * FLOAT_BYTES, whole) if size < FLOAT_BYTES else ()
    workspaces = [block for _ in range(workers) for block in _workspace(o, rows, hidden, size)]
    copied = o.nbytes(0) if o.integer("normalize_routing_weights", 0) else 0
    return at_once(copied, *widened, routes, routes, *workspaces, workers * whole, whole)


def _workspace(o: Operands, rows: int, hidden: int, size: float) -> Iterator[float]:
    """Of one thread: tokens with their weights and numbers, in float32 and as they are; and what is made of them."""
    before, behind = (*o.shape(2), 1, 1)[1], (*o.shape(4), 1, 1, 1)[2]
    yield from (rows * hidden * FLOAT_BYTES, rows * FLOAT_BYTES, rows * NUMBER_BYTES)
    yield from (rows * width * size for width in (hidden, hidden, before, behind))


@scratch("QMoE", domain=CONTRIB)
def _quantized_mixture(o: Operands, threads: int) -> Scratch:
    """Where each token goes, and for every thread its sums of all, its tokens on their way, and an expert as floats."""
    hidden, experts = (max(1, (1, *o.shape(position))[-1]) for position in (0, 1))
    tokens, sent = o.numel(0) // hidden, o.integer("k", 1)
    before = (*o.shape(2), 1, 1)[1]
    inner = (*o.shape(5), 1, 1, 1)[2] * packed(o, 2)
    workers, rows = min(threads, experts), -(-tokens * sent // experts)
    way = (rows * hidden, rows * before, rows * inner, rows * hidden, before * hidden, hidden * inner)
    workspace = sum(-(-size // PADDED) * PADDED for size in way)
    source = o.input(0)
    half = source is not None and element_bytes(source) < FLOAT_BYTES
    widened = (tokens * experts, tokens * hidden) if half else ()
    routes = [tokens * sent] * 2
    held = (*widened, *routes, workers * tokens * hidden, workers * workspace, workers * (before + hidden))
    return at_once(*(FLOAT_BYTES * size for size in held), FLOAT_BYTES * tokens * hidden if half else 0)
