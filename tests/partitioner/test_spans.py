"""Orders of ops parted by what fits, beside all ways to part them."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from hetpart.partitioner.scores.spans import Spans


def drawn(seed: int) -> tuple[Spans, int]:
    """Up to seven ops, and room for some of what they hold."""
    rng = np.random.default_rng(seed)
    ops, values = int(rng.integers(2, 9)), int(rng.integers(2, 12))
    ends = np.sort(rng.integers(0, ops, (values, 2)), axis=1)
    sizes, scratch = rng.integers(1, 50, values), rng.integers(0, 20, ops)
    spans = Spans(ends[:, 0], ends[:, 1], sizes, rng.random(values) < 0.5, scratch)
    return spans, int((0.3 + 0.7 * rng.random()) * sizes.sum())


def held(spans: Spans, begin: int, end: int) -> int:
    """Bytes of a piece: what crosses its border or is in a buffer anyway, and the most of the rest while an op runs."""
    rows = list(zip(*(part.tolist() for part in (spans.first, spans.last, spans.nbytes, spans.outside)), strict=True))
    touching = [row for row in rows if row[0] < end and row[1] >= begin]
    inner = [row for row in touching if row[0] >= begin and row[1] < end and not row[3]]
    alive = [
        int(spans.scratch[op]) + sum(size for first, last, size, _ in inner if first <= op <= last)
        for op in range(begin, end)
    ]
    return sum(row[2] for row in touching) - sum(row[2] for row in inner) + max(alive)


def fewest(spans: Spans, room: int) -> float:
    """Pieces, of all ways to part the ops into such as fit."""
    ops = len(spans.scratch)
    best = np.inf
    for ends in product((False, True), repeat=ops - 1):
        borders = [0, *(op + 1 for op, ended in enumerate(ends) if ended), ops]
        if all(held(spans, begin, end) <= room for begin, end in pairwise(borders)):
            best = min(best, len(borders) - 1)
    return best


def test_pieces_fit_and_are_about_as_few_as_can_be() -> None:
    parted = exactly = 0
    for seed in range(400):
        spans, room = drawn(seed)
        found, least = spans.parted(room), fewest(spans, room)
        if found is None:
            continue
        numbers: list[int] = found.of_op.tolist()
        borders = [numbers.index(number) for number in range(found.pieces)] + [len(numbers)]
        assert numbers == sorted(numbers), seed
        assert found.fullest == max(held(spans, *piece) for piece in pairwise(borders)) <= room, seed
        parted += least > 1
        exactly += least > 1 and found.pieces == least
    assert parted > 40, parted
    assert exactly > 0.9 * parted, (exactly, parted)


def test_what_a_buffer_holds_is_there_beside_all_ops_of_a_piece() -> None:
    """Ten bytes from the first op to the second, and twenty that the second makes and is done with."""
    ends = np.array([0, 1]), np.array([1, 1])
    sizes, scratch = np.array([10, 20]), np.array([5, 3])
    for outside, room, pieces in ((True, 35, [0, 0]), (True, 34, [0, 1]), (False, 33, [0, 0])):
        found = Spans(*ends, sizes, np.full(2, outside), scratch).parted(room)
        assert found is not None
        assert found.of_op.tolist() == pieces, room
    assert Spans(*ends, sizes, np.ones(2, np.bool_), scratch).parted(32) is None
