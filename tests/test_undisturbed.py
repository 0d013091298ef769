"""``benchmarks.undisturbed`` against runs of which it is known what they take."""

from __future__ import annotations

import random

import pytest

from benchmarks.undisturbed import Noting, Pieces

UNDISTURBED = {f"n{place}": 100.0 for place in range(10)}
"""Ticks of ten nodes: a run of a millisecond."""


def disturbed(rng: random.Random) -> dict[str, float]:
    """Half of the run at half the speed, wherever that half begins."""
    first = rng.randrange(-4, 10)
    return {
        name: ticks * (2 if first <= place < first + 5 else 1)
        for place, (name, ticks) in enumerate(UNDISTURBED.items())
    }


def test_what_no_run_took_undisturbed_is_found_in_its_pieces() -> None:
    rng, pieces = random.Random(0), Pieces()
    runs = [disturbed(rng) for _ in range(200)]
    runs = [run for run in runs if run != UNDISTURBED]
    pieces.add(runs[:100])
    pieces.add(runs[100:])
    assert min(sum(run.values()) for run in runs) > 1000.0
    assert sum(pieces.least.values()) == pytest.approx(1e-3)
    assert {len(piece) for piece in pieces.least} <= {1, 2, 3}


def test_what_the_profile_adds_is_taken_off_and_the_session_added() -> None:
    pieces = Pieces()
    pieces.add([UNDISTURBED])
    found = pieces.seconds(Noting(node=5.5e-6, session=20e-6))
    assert found == pytest.approx(1e-3 - 10 * (5.5e-6 - 0.5e-6) + 20e-6)


def test_the_profile_adds_more_than_nothing_to_a_node() -> None:
    found = Noting.of(threads=1)
    assert 0 < found.node < 1e-3
    assert 0 < found.session < 1e-2
