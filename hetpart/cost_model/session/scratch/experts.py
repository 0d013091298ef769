"""Mixtures of experts: what the CPU lays out of the tokens that are sent to each."""

from __future__ import annotations

from collections.abc import Iterator

from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, at_once, scratch

MOST_WORKERS = 8
"""Threads that experts are spread over."""
ROOM, LEAST_ROOM = 2, 512
"""A thread makes room for twice the tokens of the expert that has most, and no less than for so many."""
NUMBER_BYTES = 8
"""Of where a token stands."""


@scratch("MoE", domain=CONTRIB)
def _mixture(o: Operands, threads: int) -> Scratch:
    """Where each token goes, what every thread works with, and the sums of all; tokens go evenly to the experts."""
    hidden, experts = (max(1, (1, *o.shape(position))[-1]) for position in (0, 1))
    tokens, sent = o.numel(0) // hidden, o.integer("k", 1)
    source = o.input(0)
    size = FLOAT_BYTES if source is None else element_bytes(source)
    whole, routes = tokens * hidden * FLOAT_BYTES, tokens * sent * FLOAT_BYTES
    workers = min(threads, experts, MOST_WORKERS)
    rows = max(LEAST_ROOM, ROOM * -(-tokens * sent // experts))
    widened = (tokens * experts * FLOAT_BYTES, whole) if size < FLOAT_BYTES else ()
    workspaces = [block for _ in range(workers) for block in _workspace(o, rows, hidden, size)]
    return at_once(*widened, routes, routes, *workspaces, workers * whole, whole)


def _workspace(o: Operands, rows: int, hidden: int, size: float) -> Iterator[float]:
    """Of one thread: tokens with their weights and numbers, in float32 and as they are; and what is made of them."""
    before, behind = (*o.shape(2), 1, 1)[1], (*o.shape(4), 1, 1, 1)[2]
    yield from (rows * hidden * FLOAT_BYTES, rows * FLOAT_BYTES, rows * NUMBER_BYTES)
    yield from (rows * width * size for width in (hidden, hidden, before, behind))
