from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from hetpart.training.data import prefetch


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hetpart-prefetch"]


@pytest.mark.parametrize("ahead", [0, 1, 3, 100])
def test_batches_keep_their_order(ahead: int) -> None:
    assert list(prefetch(range(50), ahead)) == list(range(50))
    assert not threads()


def test_batches_are_made_before_they_are_asked_for_and_no_more_than_allowed() -> None:
    made, enough = list[int](), threading.Event()

    def batches() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 4:
                enough.set()
            yield number

    with closing(cast("Any", prefetch(batches(), 3))) as ready:
        assert next(ready) == 0
        assert enough.wait(10)  # one was taken, three lie ready, the fifth waits for room
        assert made == [0, 1, 2, 3, 4]
    assert not threads()


@pytest.mark.parametrize("ahead", [0, 2])
def test_an_error_comes_where_its_batch_would_have(ahead: int) -> None:
    def batches() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    ready = prefetch(batches(), ahead)
    assert next(ready) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(ready)
    assert not threads()
