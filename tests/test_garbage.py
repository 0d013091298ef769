from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from hetpart.garbage import NEW_OBJECTS, cycles_sought_rarely


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


@pytest.mark.parametrize("usual", [700, 10_000])
def test_cycles_are_sought_as_before_afterwards(usual: int) -> None:
    gc.set_threshold(usual, 10, 10)
    with cycles_sought_rarely():
        assert gc.get_threshold() == (NEW_OBJECTS, 10, 10)
        with cycles_sought_rarely():
            assert gc.get_threshold() == (NEW_OBJECTS, 10, 10)
    assert gc.get_threshold() == (usual, 10, 10)


@pytest.mark.parametrize("usual", [0, 10 * NEW_OBJECTS])
def test_where_they_are_sought_more_rarely_that_stays_so(usual: int) -> None:
    gc.set_threshold(usual, 10, 10)
    with cycles_sought_rarely():
        assert gc.get_threshold() == (usual, 10, 10)


def test_what_was_made_within_is_not_searched_behind_it() -> None:
    gc.set_threshold(700, 10, 10)
    with cycles_sought_rarely():
        made = [[number] for number in range(20_000)]
    assert len(made) == 20_000
    assert gc.get_count()[0] < 700
    assert not any(each is made for each in gc.get_objects(generation=0))
    assert any(each is made for each in gc.get_objects(generation=2))


def test_what_somebody_froze_stays_frozen() -> None:
    kept = [["frozen"]]
    gc.freeze()
    try:
        with cycles_sought_rarely():
            pass
        # The collector lists what it searches; what is frozen it does not.
        assert not any(each is kept for each in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(each is kept for each in gc.get_objects())
