"""How often Python looks for garbage while models are read and priced."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

NEW_OBJECTS = 200_000
"""Made and not given back, before they are searched for cycles: some tens of megabytes."""


@contextmanager
def cycles_sought_rarely() -> Generator[None]:
    """A model is many small records that live to the end: looking for garbage among them takes a fifth of the time.

    Where it is sought as rarely already, or not at all, that stays so.
    """
    usual = gc.get_threshold()
    if not 0 < usual[0] < NEW_OBJECTS:
        yield
        return
    gc.set_threshold(NEW_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        _promote()
        gc.set_threshold(*usual)


def _promote() -> None:
    """Make old what is young: else the next record made has the whole model searched, which took a twentieth more."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
